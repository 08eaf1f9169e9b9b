"""Settings: fields of frozen dataclasses with help, bounds and choices.

A config declares each setting once. Its flag, its line in `--help`, its checks
and its entry in `run.json` all follow from the field.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal

from albert_tf.errors import InputError

# Headings of `--help`, in their order.
MODEL = "Data and model"
EXAMPLES = "Examples"
FEATURES = "Features and answers"
LENGTH = "Length and batch"
LEARNING_RATE = "Learning rate"
OPTIMIZER = "Optimizer"
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
    MACHINE,
    EVALUATION,
    DIVERGENCE,
)

# Whether a resumed run must have the same value, may have another one, or does
# not write the value to `run.json` at all.
OnResume = Literal["same", "may_change", "not_recorded"]

_KEY = "albert_tf.settings"


@dataclasses.dataclass(frozen=True)
class Description:
    """The metadata of a setting.

    Attributes:
      help: what the setting does, for `--help`.
      group: heading of `--help`.
      flag: name of the flag; "" for the name of the field, None for no flag.
      choices: the allowed values; those of a `Literal` need not be repeated.
      bounds: interval of the allowed values, such as "[0, 1)".
      on_resume: see `OnResume`.
      parse: makes the value from the text of the flag.
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
      help: what the setting does.
      **description: the other attributes of `Description`.
    """
    return {_KEY: Description(help, **description)}


def setting(default: Any, help: str, **description: Any) -> Any:
    """Declares a field with a default.

    A subclass that only changes the default writes `name: type = default`.

    Args:
      default: the default value.
      help: what the setting does.
      **description: the other attributes of `Description`.
    """
    return dataclasses.field(
        default=default, metadata=described(help, **description)
    )


@dataclasses.dataclass(frozen=True)
class Setting:
    """A described field of a config.

    Attributes:
      name: of the field.
      default: its default, or None if there is none.
      required: whether it has no default.
      type: the evaluated annotation without `None`.
      description: the metadata.
    """

    name: str
    default: Any
    required: bool
    type: Any
    description: Description

    @property
    def flag(self) -> str | None:
        """The name of the flag; None for a setting without one."""
        name = self.description.flag
        return self.name if name == "" else name

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values; empty if they are not enumerated."""
        if typing.get_origin(self.type) is Literal:
            return typing.get_args(self.type)
        return tuple(self.description.choices)


@functools.cache
def settings_of(config: type) -> tuple[Setting, ...]:
    """Returns the described fields of a config class, inherited ones too."""
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
        yield Setting(
            name=field.name,
            default=None if required else default,
            required=required,
            type=_annotation(config, field.name),
            description=description,
        )


def _annotation(config: type, name: str) -> Any:
    """Returns the evaluated annotation of a field, without `None`.

    Only this annotation is evaluated: others may name types that are imported
    for type checkers alone.
    """
    owner = next(c for c in config.__mro__ if name in _own_annotations(c))
    annotation = owner.__annotations__[name]
    if isinstance(annotation, str):
        annotation = eval(annotation, vars(sys.modules[owner.__module__]))
    options = [
        x for x in typing.get_args(annotation) if x is not types.NoneType
    ]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, options)
    return annotation


def _own_annotations(owner: type) -> Mapping[str, Any]:
    return owner.__dict__.get("__annotations__", {})


def check_settings(config: Any) -> None:
    """Checks the values of a config against their choices and bounds.

    None is allowed wherever it is a default.

    Raises:
      InputError: names the setting, its value and the rule.
    """
    for declared in settings_of(type(config)):
        value = getattr(config, declared.name)
        if value is None:
            continue
        if declared.choices and isinstance(value, str):
            require(
                config,
                declared.name,
                value in declared.choices,
                f"one of {', '.join(x for x in declared.choices if x)}",
            )
        if declared.description.bounds:
            within, rule = _within(value, declared.description.bounds)
            require(config, declared.name, within, rule)


def _within(value: float, bounds: str) -> tuple[bool, str]:
    """Returns whether a number is in an interval, and the rule in words."""
    low_text, _, high_text = bounds[1:-1].partition(",")
    low, high = float(low_text), float(high_text)
    above = value >= low if bounds[0] == "[" else value > low
    below = value <= high if bounds[-1] == "]" else value < high
    if not math.isinf(high):
        rule = f"in {bounds}"
    elif bounds[0] == "[":
        rule = f"at least {low_text}"
    else:
        rule = "positive" if low == 0 else f"above {low_text}"
    if math.isinf(high) and not math.isfinite(value):
        return False, f"finite and {rule}"
    return above and below, rule


def require(config: Any, name: str, condition: object, rule: str) -> None:
    """Raises an `InputError` unless the condition on a setting holds.

    Args:
      config: has the setting.
      name: of the setting.
      condition: whether its value is allowed.
      rule: completes "must be ...".
    """
    if not condition:
        value = getattr(config, name)
        raise InputError(f"{name}={value!r} must be {rule}")
