"""What a system gives the process that measures it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

Outputs = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Task:
    """Work that can be timed.

    Attributes:
      run: does the work once; the result is there when it returns.
      check: returns what is compared with other systems, before the first
        `run`; by default what `run` returns.
    """

    run: Callable[[], Outputs]
    check: Callable[[], Outputs] | None = None


def in_batches(lengths: list[int], size: int) -> list[np.ndarray]:
    """Returns the numbers of the texts of each batch, long texts first.

    So the largest buffers are taken first, and a batch has little padding.
    """
    order = np.argsort([-length for length in lengths], kind="stable")
    return [order[i : i + size] for i in range(0, len(order), size)]


def in_order(parts: list[np.ndarray], batches: list[np.ndarray]) -> np.ndarray:
    """Returns the rows of all batches in the order of the texts."""
    rows = np.concatenate(parts)
    result = np.empty_like(rows)
    result[np.concatenate(batches)] = rows
    return result
