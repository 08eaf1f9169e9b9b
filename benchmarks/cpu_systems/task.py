"""Tasks that systems prepare to be timed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

Outputs = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Task:
    """A prepared workload.

    Attributes:
      run: Does the work once and returns its outputs when they are computed.
      check: Returns the outputs to compare with those of other systems, before
        the first `run`; default: those of `run`.
    """

    run: Callable[[], Outputs]
    check: Callable[[], Outputs] | None = None


def in_batches(lengths: list[int], size: int) -> list[np.ndarray]:
    """Returns the indices of the texts of each batch, long texts first.

    The largest buffers are then allocated first, and there is little padding.
    """
    order = np.argsort([-length for length in lengths], kind="stable")
    return [order[i : i + size] for i in range(0, len(order), size)]


def in_order(parts: list[np.ndarray], batches: list[np.ndarray]) -> np.ndarray:
    """Returns the rows of all batches in the original order."""
    rows = np.concatenate(parts)
    result = np.empty_like(rows)
    result[np.concatenate(batches)] = rows
    return result
