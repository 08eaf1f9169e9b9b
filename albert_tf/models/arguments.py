"""Checks of arguments that several models take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint


def check_dropout(model: str, rate: float) -> float:
    """Returns a probability in [0, 1), or raises an `InputError`."""
    number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    # NaN fails the comparison too.
    if not (number and 0 <= rate < 1):
        raise InputError(f"{model}: dropout={rate!r} must be in [0, 1)")
    return float(rate)


def check_positive(model: str, name: str, value: int) -> int:
    """Returns an integer of at least 1, or raises an `InputError`."""
    integer = isinstance(value, int) and not isinstance(value, bool)
    if not (integer and value >= 1):
        raise InputError(
            f"{model}: {name}={value!r} must be an integer of at least 1"
        )
    return value


def check_labels(
    model: str, num_labels: int, labels: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Returns the names of the labels, or raises an `InputError`."""
    check_positive(model, "num_labels", num_labels)
    if labels is None:
        return None
    names = isinstance(labels, (list, tuple)) and all(
        isinstance(label, str) for label in labels
    )
    if not names or len(labels) != num_labels:
        raise InputError(
            f"{model}: labels={labels!r} must be num_labels={num_labels} "
            "strings"
        )
    return tuple(labels)


def label_arguments(
    model, checkpoint: Checkpoint, new_head: bool, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of a head with labels that a checkpoint decides."""
    if new_head or model.HEAD not in checkpoint.parts:
        return {}
    head = checkpoint.head
    decided = {"num_labels": head.num_labels, "dropout": head.dropout}
    if given.get("num_labels", head.num_labels) == head.num_labels:
        decided["labels"] = head.labels
    return decided
