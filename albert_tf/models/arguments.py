"""Checks of the constructor arguments of models."""

from __future__ import annotations

from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


def check_config(model: str, config: Any) -> None:
    """Raises an `InputError` if `config` is not an `AlbertConfig`."""
    if isinstance(config, str):
        known = config in AlbertConfig.official_names()
        official = config if known else "albert_base_v2"
        raise InputError(
            f"{model}({config!r}): the first argument must be an AlbertConfig; "
            f"use {model}(AlbertConfig.from_official({official!r})) for new "
            f"weights, or {model}.from_pretrained(...) with a path or a name "
            'such as "albert_tiny_en" or "albert/albert-base-v2" for '
            "pretrained ones"
        )
    if not isinstance(config, AlbertConfig):
        raise InputError(
            f"{model}: config={config!r} must be an AlbertConfig, such as "
            'AlbertConfig.from_official("albert_base_v2")'
        )


def check_dropout(model: str, rate: float) -> float:
    """Validates a dropout rate, in [0, 1), and returns it as a float."""
    number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    # NaN fails the comparison too.
    if not (number and 0 <= rate < 1):
        raise InputError(f"{model}: dropout={rate!r} must be in [0, 1)")
    return float(rate)


def check_positive(model: str, name: str, value: int) -> int:
    """Validates and returns an integer of at least 1."""
    integer = isinstance(value, int) and not isinstance(value, bool)
    if not (integer and value >= 1):
        raise InputError(
            f"{model}: {name}={value!r} must be an integer of at least 1"
        )
    return value
