"""Rows of token IDs of different lengths, stored without padding."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")

_none = functools.partial(dataclasses.field, default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of tokens, and columns of values of the examples and the tokens.

    Row r is `ids[starts[r] : starts[r + 1]]`. An example is one row, or
    `rows_per_example` consecutive ones: the options of a question.
    `RowsBuilder` makes them from lists.

    Attributes:
      ids: int32 `[tokens]`.
      types: uint8 `[tokens]`: 0 or 1.
      starts: int64 `[rows + 1]`: 0, the end of each row.
      pad_id: what follows the ids of a row in a batch.
      rows_per_example: rows of each example.
      columns: by name, `[examples, ...]`: labels, positions, numbers. Strings
        are stored too, but are no input of a model; see `keep`.
      token_columns: by name, `[tokens]`: masks, labels of tokens.
      token_padding: what follows the values of a row, for every token column.
    """

    ids: np.ndarray
    types: np.ndarray
    starts: np.ndarray
    pad_id: int = 0
    rows_per_example: int = 1
    columns: Mapping[str, np.ndarray] = _none()
    token_columns: Mapping[str, np.ndarray] = _none()
    token_padding: Mapping[str, int] = _none()

    def __post_init__(self):
        per_token = {"types": self.types, **self.token_columns}
        for name, values in per_token.items():
            if values.shape != self.ids.shape:
                raise ValueError(
                    f"{name} must have the shape of ids, {self.ids.shape}, "
                    f"not {values.shape}"
                )
        if self.token_columns.keys() != self.token_padding.keys():
            raise ValueError(
                f"token_padding must name {sorted(self.token_columns)}, the "
                f"token columns, not {sorted(self.token_padding)}"
            )
        starts, tokens = self.starts, len(self.ids)
        if starts[0] or starts[-1] != tokens or (np.diff(starts) < 0).any():
            raise ValueError(f"starts must rise from 0 to {tokens}")
        if len(self) % self.rows_per_example:
            raise ValueError(
                f"{len(self)} rows are no whole number of examples of "
                f"{self.rows_per_example}"
            )
        for name, values in self.columns.items():
            if values.dtype == object:  # It would be stored as a pickle.
                raise ValueError(f"column {name} must not hold objects")
            if len(values) != self.num_examples:
                raise ValueError(
                    f"column {name} must have a value for each of "
                    f"{self.num_examples} examples, not {len(values)}"
                )
        names = [*INPUTS, *self.columns, *self.token_columns]
        if len(set(names)) != len(names):
            raise ValueError(f"columns need names of their own, not {names}")

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.starts) - 1

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self) // self.rows_per_example

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, int64 `[rows]`."""
        return np.diff(self.starts)

    @property
    def example_lengths(self) -> np.ndarray:
        """Tokens of the longest row of each example, int64 `[examples]`."""
        lengths = self.lengths.reshape(-1, self.rows_per_example)
        return lengths.max(axis=1, initial=0)

    def with_columns(self, **columns: np.ndarray) -> Rows:
        """Returns the same rows with further columns `[examples, ...]`."""
        return dataclasses.replace(self, columns={**self.columns, **columns})

    def keep(self, names: Collection[str]) -> Rows:
        """Returns the same rows with only some columns; nothing is copied.

        Args:
          names: of columns and token columns. Names that there are not have no
            effect.
        """

        def kept(mapping):
            return {key: mapping[key] for key in mapping if key in names}

        return dataclasses.replace(
            self,
            columns=kept(self.columns),
            token_columns=kept(self.token_columns),
            token_padding=kept(self.token_padding),
        )

    def select(self, examples: np.ndarray | Sequence[int]) -> Rows:
        """Returns some examples, in the order given.

        Args:
          examples: their numbers, int `[selected]`.
        """
        examples = np.asarray(examples, np.int64)
        rows = self._rows_of(examples).ravel()
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.arange(starts[-1]) + np.repeat(
            self.starts[rows] - starts[:-1], lengths
        )
        return dataclasses.replace(
            self,
            ids=self.ids[tokens],
            types=self.types[tokens],
            starts=starts,
            columns={k: v[examples] for k, v in self.columns.items()},
            token_columns={k: v[tokens] for k, v in self.token_columns.items()},
        )

    def pad(
        self,
        examples: np.ndarray | Sequence[int],
        *,
        length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Returns a batch of some examples, with all columns.

        Args:
          examples: their numbers, int `[batch]`.
          length: tokens that rows are padded to; None: the longest of them.

        Returns:
          int32 `input_word_ids`, `input_mask`, `input_type_ids` and the token
          columns `[batch, seq]`, or `[batch, rows_per_example, seq]` where that
          is not 1; columns `[batch, ...]`. Integers are int32 and other numbers
          float32.

        Raises:
          ValueError: a row is longer than `length`.
        """
        examples = np.asarray(examples, np.int64)
        rows = self._rows_of(examples)
        if self.rows_per_example == 1:
            rows = rows[:, 0]
        begins, lengths = self.starts[rows], self.lengths[rows]
        longest = int(lengths.max(initial=0))
        if length is None:
            length = longest
        elif longest > length:
            raise ValueError(
                f"a row has {longest} tokens, more than length={length}"
            )
        offsets = np.arange(length)
        mask = offsets < lengths[..., None]
        tokens = (begins[..., None] + offsets)[mask]

        def padded(values, padding):
            values = as_batch_values(values[tokens])
            batch = np.full(mask.shape, padding, values.dtype)
            batch[mask] = values
            return batch

        batch = {
            "input_word_ids": padded(self.ids, self.pad_id),
            "input_mask": mask.astype(np.int32),
            "input_type_ids": padded(self.types, 0),
        }
        for name, values in self.token_columns.items():
            batch[name] = padded(values, self.token_padding[name])
        for name, values in self.columns.items():
            batch[name] = as_batch_values(values[examples])
        return batch

    def _rows_of(self, examples: np.ndarray) -> np.ndarray:
        """Returns the numbers of rows, `[examples, rows_per_example]`."""
        count = self.rows_per_example
        return examples[:, None] * count + np.arange(count)

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Returns the examples of all parts, which have the same columns."""
        first = parts[0]

        def joined(arrays):
            return np.concatenate(list(arrays))

        return dataclasses.replace(
            first,
            ids=joined(part.ids for part in parts),
            types=joined(part.types for part in parts),
            starts=np.concatenate(
                [[0], np.cumsum(joined(x.lengths for x in parts))]
            ),
            columns={
                name: joined(part.columns[name] for part in parts)
                for name in first.columns
            },
            token_columns={
                name: joined(part.token_columns[name] for part in parts)
                for name in first.token_columns
            },
        )


def as_batch_values(values: np.ndarray) -> np.ndarray:
    """Returns integers as int32 and other numbers as float32."""
    kind = values.dtype.kind
    if kind in "iub":
        return values.astype(np.int32)
    return values.astype(np.float32) if kind == "f" else values
