"""How one system's array becomes another's: exact, and in both directions."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np


@dataclasses.dataclass(frozen=True)
class Transform:
    """Maps our array to theirs and back; the values stay bit for bit.

    Attributes:
      kind: `same`; `transpose`: a matrix by its other side; `split_last`: the
        heads of the last axis apart, `[..., H]` to `[..., A, H/A]`;
        `split_first`: those of the first, `[H, ...]` to `[A, H/A, ...]`.
      num_heads: A, for the last two.
    """

    kind: Literal["same", "transpose", "split_last", "split_first"] = "same"
    num_heads: int = 1

    def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Our shape -> theirs."""
        if self.kind == "transpose":
            return ours[::-1]
        if self.kind == "split_last":
            return (*ours[:-1], self.num_heads, ours[-1] // self.num_heads)
        if self.kind == "split_first":
            return (self.num_heads, ours[0] // self.num_heads, *ours[1:])
        return ours

    def to_theirs(self, array: np.ndarray) -> np.ndarray:
        """Our array -> theirs."""
        if self.kind == "transpose":
            return array.T
        return array.reshape(self.shape(array.shape))

    def to_ours(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Their array -> ours, of `shape`."""
        return array.T if self.kind == "transpose" else array.reshape(shape)


def identity(shape: tuple[int, ...]) -> np.ndarray:
    """Returns the kernel or bias of a projection that changes nothing.

    For systems that always project, of a model that does not.
    """
    if len(shape) == 2:
        return np.eye(*shape, dtype=np.float32)
    return np.zeros(shape, np.float32)
