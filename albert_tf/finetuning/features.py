"""Features: tokenized examples without padding."""

from __future__ import annotations

import array
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from albert_tf.array_ops import ArrayOps
from albert_tf.errors import InputError
from albert_tf.text.packing import ENCODER_INPUTS

Batch = dict[str, Any]
_Item = TypeVar("_Item")

# The column of labels.
LABELS = "labels"

_empty = functools.partial(dataclasses.field, default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Token sequences without padding, with columns of labels and masks.

    Sequence i is `ids[starts[i] : starts[i + 1]]`. An example is one sequence,
    or `sequences_per_example` consecutive ones, such as the options of a
    question. `FeaturesBuilder` creates features from batches.

    Attributes:
      ids: token ids, int32 `[tokens]`.
      types: segment ids, 0 or 1, uint8 `[tokens]`.
      starts: 0 and the end of each sequence, int64 `[sequences + 1]`.
      pad_id: id of padding in batches.
      sequences_per_example: number of sequences per example.
      columns: values per example, such as labels: name -> `[examples, ...]`.
      token_columns: values per token, such as masks: name -> `[tokens]`.
      token_padding: padding value of each token column.
      metadata: values that a task type needs to make predictions, besides the
        model's outputs, one for each example that was read; not part of
        batches.
    """

    ids: np.ndarray
    types: np.ndarray
    starts: np.ndarray
    pad_id: int = 0
    sequences_per_example: int = 1
    columns: Mapping[str, np.ndarray] = _empty()
    token_columns: Mapping[str, np.ndarray] = _empty()
    token_padding: Mapping[str, int] = _empty()
    metadata: Sequence[Any] = ()

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
            raise ValueError(f"starts must increase from 0 to {tokens}")
        if len(self) % self.sequences_per_example:
            raise ValueError(
                f"{len(self)} sequences must be a multiple of "
                f"sequences_per_example={self.sequences_per_example}"
            )
        for name, values in self.columns.items():
            if values.dtype == object:  # NumPy would pickle it.
                raise ValueError(f"column {name} must not hold objects")
            if len(values) != self.num_examples:
                raise ValueError(
                    f"column {name} must have a value for each of "
                    f"{self.num_examples} examples, not {len(values)}"
                )
        names = [*ENCODER_INPUTS, *self.columns, *self.token_columns]
        if len(set(names)) != len(names):
            raise ValueError(f"column names must be unique, not {names}")

    def __len__(self) -> int:
        """Returns the number of sequences."""
        return len(self.starts) - 1

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self) // self.sequences_per_example

    @property
    def lengths(self) -> np.ndarray:
        """Length of each sequence in tokens, int64 `[sequences]`."""
        return np.diff(self.starts)

    @property
    def example_lengths(self) -> np.ndarray:
        """Length of each example's longest sequence, int64 `[examples]`."""
        lengths = self.lengths.reshape(-1, self.sequences_per_example)
        return lengths.max(axis=1, initial=0)

    def pad(
        self, examples: np.ndarray | Sequence[int], *, length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Returns a padded batch of some examples, with all columns.

        Args:
          examples: indices of the examples, int `[batch]`.
          length: length to pad to in tokens; None for the longest sequence.

        Returns:
          A dict of int32 `input_word_ids`, `input_mask`, `input_type_ids` and
          the token columns, `[batch, seq]`, or
          `[batch, sequences_per_example, seq]` if that is above 1; and of the
          columns `[batch, ...]`, integers as int32 and floats as float32.

        Raises:
          ValueError: if a sequence is longer than `length`.
        """
        examples = np.asarray(examples, np.int64)
        longest = int(self.example_lengths[examples].max(initial=0))
        if length is not None and longest > length:
            raise ValueError(
                f"a sequence has {longest} tokens, more than length={length}"
            )
        return self.padder(ArrayOps(), length)(examples)

    def padder(self, ops: Any, length: int | None) -> Callable[[Any], Batch]:
        """Returns `pad` as a function; longer sequences than `length` are cut.

        Args:
          ops: `ArrayOps`, or `TensorOps` for input pipelines.
          length: length to pad to in tokens; None for the longest sequence.
        """
        # Once, not in each batch.
        starts, ids, types = map(ops.host, (self.starts, self.ids, self.types))
        columns = {name: ops.host(x) for name, x in self.columns.items()}
        token_columns = {
            name: (ops.host(x), self.token_padding[name])
            for name, x in self.token_columns.items()
        }
        last_token = max(len(self.ids) - 1, 0)
        count = self.sequences_per_example

        def batch_values(values: Any) -> Any:
            is_float = np.dtype(values.dtype.name).kind == "f"
            return ops.cast(values, np.float32 if is_float else np.int32)

        def pad(examples: Any) -> Batch:
            sequences = ops.cast(examples, np.int64)
            if count > 1:
                options = ops.cast(ops.arange(count), np.int64)
                sequences = sequences[:, None] * count + options
            begins = ops.gather(starts, sequences)
            lengths = ops.gather(starts, sequences + 1) - begins
            longest = ops.largest(lengths) if length is None else length
            offsets = ops.cast(ops.arange(longest), np.int64)
            mask = offsets < lengths[..., None]
            # Positions beyond a sequence are gathered, too, then overwritten.
            tokens = ops.minimum(begins[..., None] + offsets, last_token)

            def padded(values, padding):
                values = batch_values(ops.gather(values, tokens))
                return ops.where(mask, values, ops.cast(padding, values.dtype))

            batch = {
                "input_word_ids": padded(ids, self.pad_id),
                "input_mask": ops.cast(mask, np.int32),
                "input_type_ids": padded(types, 0),
            }
            for name, (values, padding) in token_columns.items():
                batch[name] = padded(values, padding)
            for name, values in columns.items():
                batch[name] = batch_values(ops.gather(values, examples))
            return batch

        return pad


def batched(iterable: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yields lists of up to `size` items, like Python 3.12's `batched`.

    If the iterable raises an `InputError`, the items before it come first.
    """
    batch: list[_Item] = []
    try:
        for item in iterable:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
    except InputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class FeaturesBuilder:
    """Builds `Features` from batches of sequences, one after the other.

    It takes 5 bytes per token, and 4 for each token column.
    """

    def __init__(
        self, *, pad_id: int = 0, token_padding: Mapping[str, int] | None = None
    ):
        self._pad_id = pad_id
        self._token_padding = dict(token_padding or {})
        self._ids = array.array("i")
        self._types = array.array("B")
        self._starts = array.array("q", [0])
        self._token_columns = {x: array.array("i") for x in self._token_padding}

    def extend(self, batch: Mapping[str, Any]) -> None:
        """Appends the sequences of a padded batch, with every token column."""
        arrays = {name: np.asarray(x) for name, x in batch.items()}
        mask = arrays.pop("input_mask").astype(bool)
        _extend(self._ids, arrays.pop("input_word_ids")[mask], np.int32)
        _extend(self._types, arrays.pop("input_type_ids")[mask], np.uint8)
        for name, values in self._token_columns.items():
            _extend(values, arrays[name][mask], np.int32)
        ends = self._starts[-1] + mask.sum(axis=1).cumsum()
        _extend(self._starts, ends, np.int64)

    def __len__(self) -> int:
        """Returns the number of sequences so far."""
        return len(self._starts) - 1

    def build(
        self, metadata: Sequence[Any] = (), /, **columns: Any
    ) -> Features:
        """Returns the features; columns are `[examples, ...]`."""
        return Features(
            ids=np.array(self._ids, np.int32),
            types=np.array(self._types, np.uint8),
            starts=np.array(self._starts, np.int64),
            pad_id=self._pad_id,
            columns={name: np.asarray(x) for name, x in columns.items()},
            token_columns={
                name: np.array(x, np.int32)
                for name, x in self._token_columns.items()
            },
            token_padding=self._token_padding,
            metadata=metadata,
        )


def _extend(target: array.array, values: Any, dtype: type) -> None:
    # Much faster than `extend`, which converts numbers one by one.
    target.frombytes(np.asarray(values, dtype).tobytes())
