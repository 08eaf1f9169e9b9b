"""Validation of values in JSON files and settings by type annotations."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import numbers
import os
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from albert_tf.errors import InputError, shown

_RULES = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    os.PathLike: "a path",
    types.NoneType: "null",
}


def check_type(value: Any, annotation: Any, source: str) -> None:
    """Checks that a value matches a type annotation.

    Supported are the JSON types, `Literal`, unions, sequences, mappings, paths,
    `TypedDict` (extra keys are ignored), dataclasses (given as mappings) and
    other classes (given as instances). An integer has at most 64 bits. It is a
    valid float up to 1.8e308. A Boolean is neither an integer nor a float.

    Raises:
      InputError: if the value does not match. Names the source, the
        path of the value, the value and the rule.
    """
    problem = type_problem(value, annotation, "")
    if problem:
        raise InputError(f"{source}: {problem}")


def check_argument(value: Any, annotation: Any, name: str) -> None:
    """Checks the type of an argument; see `check_type`.

    Raises:
      InputError: if the type is wrong. Names the argument, its value and the
        rule.
    """
    if problem := type_problem(value, annotation, name):
        raise InputError(problem)


def typed(
    values: Mapping[str, Any],
    key: str,
    annotation: Any,
    default: Any = None,
    source: str = "",
) -> Any:
    """Returns a value of a JSON object after checking its type.

    Args:
      values: the JSON object.
      key: key of the value.
      annotation: type of the value; see `check_type`. A `float` must be finite.
      default: value for a missing key. If None, null is allowed too.
      source: name of the file in error messages.

    Raises:
      InputError: if the value does not have this type.
    """
    value = values.get(key, default)
    if value is None and default is None:
        return None
    problem = type_problem(value, annotation, key)
    # The comparison is False for NaN, infinity and too large integers.
    if annotation is float and not (
        problem or abs(value) <= sys.float_info.max
    ):
        problem = _wrong(key, value, "a finite number")
    if problem:
        raise InputError(f"{source}: {problem}" if source else problem)
    return value


def type_problem(value: Any, annotation: Any, name: str) -> str:
    """Returns "NAME=VALUE must be RULE", or "" if the type matches."""
    return next(_problems(value, annotation, name), "")


def _problems(value: Any, annotation: Any, path: str) -> Iterator[str]:
    """Yields the problems of a value and their locations."""
    origin = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if annotation is Any or annotation is object:
        return
    if origin in (typing.Union, types.UnionType):
        found = [next(_problems(value, x, path), None) for x in arguments]
        if None not in found:
            # A problem inside a container is more specific than its type.
            yield next(
                (x for x in found if x and not x.startswith(_at(path, value))),
                _wrong(path, value, _rule(annotation)),
            )
    elif typing.is_typeddict(origin) or dataclasses.is_dataclass(origin):
        if dataclasses.is_dataclass(origin) and isinstance(value, origin):
            return
        yield from _record_problems(value, origin, path)
    elif _is_a(value, origin, arguments):
        if origin in _MAPPINGS:
            _, item = arguments or (Any, Any)
            for key, x in value.items():
                if not isinstance(key, str):
                    yield _wrong(_inside(path, "key"), key, "a string")
                yield from _problems(x, item, _inside(path, key))
        elif origin in _SEQUENCES:
            item = arguments[0] if arguments else Any
            for number, x in enumerate(value):
                yield from _problems(x, item, f"{path}[{number}]")
    elif origin in (int, float) and _is_number(value, numbers.Integral):
        size = "64 bits" if origin is int else f"{sys.float_info.max:.2g}"
        yield _wrong(path, value, f"{_RULES[origin]} of at most {size}")
    else:
        yield _wrong(path, value, _rule(annotation))


_MAPPINGS = (dict, collections.abc.Mapping)
_SEQUENCES = (list, tuple, collections.abc.Sequence)


def _is_a(value: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    """Returns whether a value has a type, ignoring its items."""
    if origin is Literal:
        return any(type(value) is type(x) and value == x for x in arguments)
    if origin in (int, float):
        if origin is int:
            fits = _is_number(value, numbers.Integral)
            return fits and -(1 << 63) <= int(value) < 1 << 63
        return _is_number(value, numbers.Real) and (
            not isinstance(value, numbers.Integral)
            or abs(int(value)) <= sys.float_info.max
        )
    if origin in _SEQUENCES:
        return isinstance(value, (list, tuple))
    return isinstance(value, origin)


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _record_problems(value: Any, record: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield _wrong(path, value, "an object")
        return
    for name, (annotation, required) in _fields(record).items():
        if name in value:
            yield from _problems(value[name], annotation, _inside(path, name))
        elif required:
            yield f"{path or 'the object'} lacks {name!r}"


@functools.cache
def _fields(record: Any) -> dict[str, tuple[Any, bool]]:
    """Returns the annotation of each field, and whether it is required."""
    annotations = typing.get_type_hints(record)
    if typing.is_typeddict(record):
        required = record.__required_keys__
        return {name: (x, name in required) for name, x in annotations.items()}
    return {
        field.name: (
            annotations[field.name],
            field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(record)
    }


def _rule(annotation: Any) -> str:
    """Describes a type in words."""
    origin = typing.get_origin(annotation) or annotation
    arguments = typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_rule, arguments)))
    if origin is Literal:
        return f"one of {', '.join(str(x) for x in arguments if x != '')}"
    if origin in _MAPPINGS:
        return "an object"
    if origin in _SEQUENCES:
        return (
            f"a list, each item {_rule(arguments[0])}"
            if arguments
            else ("a list")
        )
    if typing.is_typeddict(origin) or dataclasses.is_dataclass(origin):
        return "an object"
    return _RULES.get(origin) or f"a {origin.__name__}"


def _inside(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _at(path: str, value: Any) -> str:
    return f"{path}={shown(value)}" if path else shown(value)


def _wrong(path: str, value: Any, rule: str) -> str:
    return f"{_at(path, value)} must be {rule}"
