"""Array functions of packing, padding and masking, in NumPy.

`tensor_ops.TensorOps` has the same in a TensorFlow graph. Procedures that run
with and without a graph are written once, with these functions: the packing of
sequences (`text.packing`), padding (`finetuning.features`), sentence pairs and
masking (`data`). Only random numbers differ, as a graph draws them from a seed
without a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class ArrayOps:
    """NumPy functions, and draws from a generator.

    Args:
      rng: source of all randomness; not needed without draws.
    """

    arange = staticmethod(np.arange)
    bincount = staticmethod(np.bincount)
    concat = staticmethod(np.concatenate)
    maximum = staticmethod(np.maximum)
    minimum = staticmethod(np.minimum)
    reshape = staticmethod(np.reshape)
    repeat = staticmethod(np.repeat)
    where = staticmethod(np.where)
    zeros = staticmethod(np.zeros)
    flatnonzero = staticmethod(np.flatnonzero)
    host = staticmethod(lambda array: array)
    cast = staticmethod(np.asarray)
    shape = staticmethod(np.shape)
    # Rows at some indices.
    gather = staticmethod(lambda array, indices: array[indices])
    # Booleans as 0 and 1.
    integers = staticmethod(lambda array: array.astype(np.int64))
    # Of rows: whether any column is true, and the sums up to each column.
    any = staticmethod(lambda array: array.any(axis=1))
    cumsum = staticmethod(lambda array: array.cumsum(axis=1))
    # The largest element, or 0 if there is none.
    largest = staticmethod(lambda array: array.max(initial=0))
    # Adds columns of zeros at the end.
    pad = staticmethod(lambda array, n: np.pad(array, ((0, 0), (0, n))))
    # The number of elements up to each value.
    searchsorted = staticmethod(lambda a, x: np.searchsorted(a, x, "right"))
    boolean, floating = np.bool_, np.float32

    def __init__(self, rng: np.random.Generator | None = None):
        self._rng = rng

    def replace(
        self, array: np.ndarray, indices: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """Returns a copy of a vector with new values at some indices."""
        array = array.copy()
        array[indices] = values
        return array

    def check_sizes(
        self, first: np.ndarray, second: np.ndarray, message: str
    ) -> np.ndarray:
        """Returns `first`, if it has as many elements as `second`.

        Raises:
          ValueError: with the message, otherwise; in a graph,
            `tf.errors.InvalidArgumentError`.
        """
        if first.size != second.size:
            raise ValueError(message)
        return first

    def argsort(self, keys: np.ndarray) -> np.ndarray:
        """Returns a stable argsort of rows, several times faster than NumPy's.

        The bits of positive floats, read as integers, have the same order. With
        the column as the low bits, all are different.

        Args:
          keys: float32 `[rows, columns]`, not negative.
        """
        columns = np.arange(keys.shape[1], dtype=np.uint64)
        sortable = keys.view(np.uint32).astype(np.uint64) << 32 | columns
        return (np.sort(sortable, axis=1) & 0xFFFFFFFF).astype(np.int64)

    def while_loop(
        self,
        condition: Callable[..., Any],
        body: Callable[..., tuple[Any, ...]],
        values: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        """Returns `values` after calls of `body`, while `condition` is true."""
        while condition(*values):
            values = body(*values)
        return values

    def draw_words(
        self, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws two arrays from [0, 1).

        Returns:
          Sort keys that order the words, and numbers that choose the lengths of
          n-grams.
        """
        assert self._rng is not None
        return self._rng.random(shape, np.float32), self._rng.random(shape)

    def draw_replacements(
        self, masked: np.ndarray, num_ids: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws an integer below `num_ids`, and from [0, 1), for each token."""
        assert self._rng is not None
        integers = self._rng.integers(num_ids, size=len(masked))
        return integers, self._rng.random(len(masked))
