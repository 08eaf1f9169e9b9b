"""Settings: fields of frozen dataclasses with help, bounds and choices.

A config declares each setting once. Its flag, help, checks and entry in
`run.json` are all derived from the field.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, ParamSpec, TypeVar

from albert_tf.errors import InputError, shown
from albert_tf.input_files import parse_json
from albert_tf.schema import type_problem

# Headings of `--help`, in order.
MODEL = "Data and model"
EXAMPLES = "Training and test data"
FEATURES = "Features and answers"
LENGTH = "Length and batch"
LEARNING_RATE = "Learning rate"
OPTIMIZER = "Optimizer"
LOSS = "Loss"
MACHINE = "Machine"
EVALUATION = "Evaluations, checkpoints and logs"
DIVERGENCE = "Divergence"
GROUPS = (
    MODEL,
    EXAMPLES,
    FEATURES,
    LENGTH,
    LEARNING_RATE,
    OPTIMIZER,
    LOSS,
    MACHINE,
    EVALUATION,
    DIVERGENCE,
)

# Whether the value must be the same when a run is resumed, may change, or is
# not recorded in `run.json` at all.
OnResume = Literal["same", "may_change", "not_recorded"]

_KEY = "albert_tf.settings"

P = ParamSpec("P")
R = TypeVar("R")

# Integers must be in the range of int32 unless the bounds are larger.
_MAX_INT = 2**31 - 1
# Floats must be normal float32 numbers, or zero.
_MIN_FLOAT, _MAX_FLOAT = 1.2e-38, 3.4e38


@dataclasses.dataclass(frozen=True)
class Description:
    """The metadata of a setting.

    Attributes:
      help: description for `--help`.
      group: heading in `--help`.
      flag: name of the flag; "" for the name of the field, None for no flag.
      choices: the allowed values, unless the type is a `Literal`.
      bounds: interval of the allowed numbers, such as "[0, 1)". Numbers must
        also be finite and in the range of int32 or float32.
      on_resume: see `OnResume`.
      parse: converts the text of the flag to the value.
    """

    help: str
    group: str = ""
    flag: str | None = ""
    choices: Collection[str] = ()
    bounds: str = ""
    on_resume: OnResume = "same"
    parse: Callable[[str], Any] | None = None


def described(help: str, **description: Any) -> Mapping[str, Description]:
    """Returns the metadata of a field without a default, or with a factory.

    Args:
      help: description for `--help`.
      **description: further attributes of `Description`.
    """
    return {_KEY: Description(help, **description)}


def setting(default: Any, help: str, **description: Any) -> Any:
    """Declares a field with a default.

    To change only the default, a subclass declares `name: type = default`.

    Args:
      default: the default value.
      help: description for `--help`.
      **description: further attributes of `Description`.
    """
    return dataclasses.field(
        default=default, metadata=described(help, **description)
    )


def overriding(config: type, name: str) -> Any:
    """Declares a field that overrides a setting of another config.

    Args:
      config: the config that declares the setting.
      name: name of the setting.

    Returns:
      A field with the same description and the default None: no override.
    """
    (description,) = (
        declared.description
        for declared in settings_of(config)
        if declared.name == name
    )
    return dataclasses.field(default=None, metadata={_KEY: description})


@dataclasses.dataclass(frozen=True)
class Setting:
    """A described field of a config.

    Attributes:
      name: name of the field.
      default: default of the field, or None if it is required.
      required: whether the field has no default.
      optional: whether None is allowed.
      type: the evaluated annotation, without `None`.
      description: the metadata.
    """

    name: str
    default: Any
    required: bool
    optional: bool
    type: Any
    description: Description

    @property
    def flag(self) -> str | None:
        """The name of the flag; None for a setting without one."""
        name = self.description.flag
        return self.name if name == "" else name

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values; empty if any value is allowed."""
        if typing.get_origin(self.type) is Literal:
            return typing.get_args(self.type)
        return tuple(self.description.choices)

    @property
    def named_choices(self) -> tuple[str, ...]:
        """The allowed values, without an empty string."""
        return tuple(filter(None, self.choices))


@functools.cache
def settings_of(config: type) -> tuple[Setting, ...]:
    """Returns the settings of a config class, including inherited ones."""
    return tuple(_described_fields(config))


def _described_fields(config: type) -> Iterator[Setting]:
    for field in dataclasses.fields(config):
        owners = [c for c in config.__mro__ if dataclasses.is_dataclass(c)]
        fields = [
            owner.__dataclass_fields__[field.name]
            for owner in owners
            if field.name in owner.__dataclass_fields__
        ]
        description = next(
            (f.metadata[_KEY] for f in fields if _KEY in f.metadata), None
        )
        if description is None:
            continue
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        required = default is dataclasses.MISSING
        annotation, optional = _annotation(config, field.name)
        yield Setting(
            name=field.name,
            default=None if required else default,
            required=required,
            optional=optional,
            type=annotation,
            description=description,
        )


def _annotation(config: type, name: str) -> tuple[Any, bool]:
    """Returns a field's annotation without `None`, and whether it had `None`.

    Other annotations are not evaluated, as they may refer to types that are
    imported only for type checkers.
    """
    owner = next(c for c in config.__mro__ if name in _own_annotations(c))
    annotation = owner.__annotations__[name]
    if isinstance(annotation, str):
        annotation = eval(annotation, vars(sys.modules[owner.__module__]))
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    options = typing.get_args(annotation)
    others = [x for x in options if x is not types.NoneType]
    return functools.reduce(operator.or_, others), others != [*options]


def _own_annotations(owner: type) -> Mapping[str, Any]:
    return owner.__dict__.get("__annotations__", {})


def takes(config: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a command's function, whose first argument is a config.

    Other arguments raise a `TypeError` that says what to write.
    """
    fields = ", ".join(
        f"{field.name}=..."
        for field in dataclasses.fields(config)
        if field.default is field.default_factory is dataclasses.MISSING
    )

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature, name = inspect.signature(function), function.__name__

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                first, *_ = signature.bind(*args, **kwargs).arguments.values()
            except TypeError:
                first = None
            if not isinstance(first, config):
                raise TypeError(
                    f"{name} takes settings as {config.__name__}; write "
                    f"{name}({config.__name__}({fields or '...'}))"
                )
            return function(*args, **kwargs)

        return call

    return decorate


def check_settings(config: Any) -> None:
    """Validates the values of a config, and converts numbers to their type.

    A value must have the annotated type and satisfy choices and bounds. Numbers
    must be finite. Strings and paths must be valid UTF-8 and not empty, unless
    they are the default.

    Raises:
      InputError: if a value is invalid. Names the setting, the value and the
        rule.
    """
    for declared in settings_of(type(config)):
        value = getattr(config, declared.name)
        if value is None and declared.optional:
            continue
        if dataclasses.is_dataclass(declared.type):
            rule = f"an {declared.type.__name__}"
            is_one = isinstance(value, declared.type)
            require(config, declared.name, is_one, rule)
            continue
        problem = type_problem(value, declared.type, declared.name)
        if problem and not declared.choices:
            raise InputError(problem)
        if declared.choices:
            require(
                config,
                declared.name,
                isinstance(value, str) and value in declared.choices,
                f"one of {', '.join(declared.named_choices)}",
            )
        if declared.type in (int, float):
            value = declared.type(value) if _fits(value) else value
            within, rule = _within(value, declared)
            require(config, declared.name, within, rule)
            object.__setattr__(config, declared.name, value)
        else:
            default = declared.default
            if isinstance(value, list) and isinstance(default, tuple):
                default = [*default]
            if value != default:
                _check_texts(declared.name, value)


def _fits(value: Any) -> bool:
    """Returns whether a number can be converted to a Python float."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _within(value: float, declared: Setting) -> tuple[bool, str]:
    """Returns whether a number is within its bounds, and the rule in words."""
    bounds = declared.description.bounds or "(-inf, inf)"
    low_text, high_text = bounds[1:-1].split(",")
    low, high = float(low_text), float(high_text)
    if not math.isinf(high):
        rule = f"in {bounds}"
    elif math.isinf(low):
        rule = "an integer" if declared.type is int else "a number"
    elif bounds[0] == "[":
        rule = f"at least {low_text}"
    else:
        rule = "positive" if low == 0 else f"above {low_text}"
    above = value >= low if bounds[0] == "[" else value > low
    below = value <= high if bounds[-1] == "]" else value < high
    if isinstance(value, float) and not math.isfinite(value):
        return False, "finite" if math.isinf(low) else f"finite and {rule}"
    largest = _MAX_INT if declared.type is int else _MAX_FLOAT
    if (math.isinf(high) and value > largest) or (
        math.isinf(low) and value < -largest
    ):
        return False, f"{rule} and at most {largest:,} in size"
    if declared.type is float and 0 < abs(value) < _MIN_FLOAT:
        return False, f"{rule}; float32 has nothing below {_MIN_FLOAT} but 0"
    return above and below, rule


def _check_texts(name: str, value: Any) -> None:
    """Checks strings and paths, one or several."""
    if isinstance(value, Mapping):
        return
    for text in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(text, os.PathLike):
            text = os.fspath(text)
        if not isinstance(text, str):
            continue
        if not text.strip():
            raise InputError(f"{name}={text!r} must not be empty")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{name}={text!r} must be UTF-8") from None
        if "\0" in text:
            raise InputError(f"{name}={shown(text)} must not contain NUL")
    if isinstance(value, (list, tuple)) and not value:
        raise InputError(f"{name}={value!r} must not be empty")


def require(config: Any, name: str, condition: object, rule: str) -> None:
    """Raises an `InputError` unless a condition on a setting holds.

    Args:
      config: the config.
      name: name of the setting.
      condition: whether the value is allowed.
      rule: the allowed values, to complete "must be ...".
    """
    if not condition:
        value = shown(getattr(config, name))
        raise InputError(f"{name}={value} must be {rule}")


def parse_values(
    flag: str, text: str, known: Collection[str] | None = None
) -> dict[str, Any]:
    """Parses the value of a flag such as `vocab_size=8000,sharing=none`.

    Args:
      flag: name of the flag, for error messages.
      text: NAME=VALUE pairs, separated by commas.
      known: the names that are allowed; None for any.

    Returns:
      Name -> value, which is text unless it is JSON.

    Raises:
      InputError: if the text is no such list, or a name unknown or repeated.
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name or (known is not None and name not in known):
            names = "" if known is None else f" with one of {', '.join(known)}"
            raise InputError(f"{flag}: {part!r} is not NAME=VALUE{names}")
        if name in values:
            raise InputError(f"{flag}: {name} is given twice; give it once")
        try:
            values[name] = parse_json(value, name)
        except ValueError:
            values[name] = value.strip()
    return values
