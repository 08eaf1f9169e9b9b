"""Lists of token IDs to `Rows`."""

from __future__ import annotations

import array
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data.features.rows import Rows

_NO_COLUMNS: Mapping[str, int] = types.MappingProxyType({})


class RowsBuilder:
    """Collects rows one by one; 5 bytes a token, and 4 a token column.

    Args:
      pad_id: see `Rows`.
      rows_per_example: see `Rows`.
      token_padding: names of the token columns, and what pads each.
    """

    def __init__(
        self,
        *,
        pad_id: int = 0,
        rows_per_example: int = 1,
        token_padding: Mapping[str, int] = _NO_COLUMNS,
    ):
        self._pad_id = pad_id
        self._rows_per_example = rows_per_example
        self._token_padding = dict(token_padding)
        self._ids = array.array("i")
        self._types = array.array("B")
        self._starts = array.array("q", [0])
        self._token_columns = {name: array.array("i") for name in token_padding}

    def append(
        self,
        ids: Sequence[int] | np.ndarray,
        types: Sequence[int] | np.ndarray,
        **token_values: Sequence[int] | np.ndarray,
    ) -> None:
        """Adds a row.

        Args:
          ids: of its tokens, `[CLS]` and `[SEP]` included.
          types: 0 or 1 for each.
          **token_values: an integer for each, for every token column.

        Raises:
          ValueError: the lengths or the names do not fit.
        """
        if token_values.keys() != self._token_columns.keys():
            raise ValueError(
                f"the token columns are {sorted(self._token_columns)}, not "
                f"{sorted(token_values)}"
            )
        for name, values in {"types": types, **token_values}.items():
            if len(values) != len(ids):
                raise ValueError(
                    f"{name} must have {len(ids)} values as ids has, not "
                    f"{len(values)}"
                )
        _extend(self._ids, ids, np.int32)
        _extend(self._types, types, np.uint8)
        for name, values in token_values.items():
            _extend(self._token_columns[name], values, np.int32)
        self._starts.append(len(self._ids))

    def build(self, **columns: Any) -> Rows:
        """Returns the rows.

        Args:
          **columns: arrays `[examples, ...]`, or lists of numbers or strings.
        """
        return Rows(
            ids=np.array(self._ids, np.int32),
            types=np.array(self._types, np.uint8),
            starts=np.array(self._starts, np.int64),
            pad_id=self._pad_id,
            rows_per_example=self._rows_per_example,
            columns={name: np.asarray(x) for name, x in columns.items()},
            token_columns={
                name: np.array(x, np.int32)
                for name, x in self._token_columns.items()
            },
            token_padding=self._token_padding,
        )


def _extend(target: array.array, values: Any, dtype: type) -> None:
    # Bytes are faster than one number after the other, above all from arrays.
    target.frombytes(np.asarray(values, dtype).tobytes())
