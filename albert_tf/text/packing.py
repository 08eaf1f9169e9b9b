"""Packing of token ids into inputs of the encoder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from albert_tf.errors import import_package


def pack(
    firsts: Sequence[list[int]],
    seconds: Sequence[list[int]] | None,
    *,
    max_length: int,
    padded_length: int | None,
    pad_id: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, np.ndarray]:
    """Packs token ids into a padded batch, trimming pairs round-robin.

    Round-robin trimming takes one id from each segment in turn, starting with
    the first, until the sequence is full: three free positions are split 2 + 1,
    and positions that a short segment leaves unused go to the other one.
    `AlbertPreprocessor.bert_pack_inputs` does the same in a graph.

    Args:
      firsts: ids of the first segment of each example.
      seconds: ids of the second segment of each example, or None.
      max_length: maximum sequence length, including `[CLS]` and `[SEP]`.
      padded_length: the length to pad to; None for that of the longest sequence
        in the batch.
      pad_id: id of the padding token; mask and types are 0 there.
      cls_id: id at the start of each sequence.
      sep_id: id at the end of each segment.

    Returns:
      Dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32
      `[batch, seq]`.

    Raises:
      ValueError: if a sequence is longer than `padded_length`.
    """
    rows, first_lengths = [], []
    if seconds is None:
        for first in firsts:
            row = [cls_id, *first[: max_length - 2], sep_id]
            rows.append(row)
            first_lengths.append(len(row))
    else:
        budget = max_length - 3
        for first, second in zip(firsts, seconds, strict=True):
            for_second = min(len(second), max(budget // 2, budget - len(first)))
            first = first[: budget - for_second]
            rows.append([cls_id, *first, sep_id, *second[:for_second], sep_id])
            first_lengths.append(len(first) + 2)

    lengths = np.fromiter(map(len, rows), np.int32, len(rows))[:, None]
    longest = int(lengths.max(initial=0))
    width = longest if padded_length is None else padded_length
    if longest > width:
        raise ValueError(
            f"a text has {longest} tokens, more than the max_length={width} to "
            "pad to; truncate it, or pad to the longest"
        )
    positions = np.arange(width, dtype=np.int32)[None]
    mask = positions < lengths
    ids = np.full(mask.shape, pad_id, np.int32)
    ids[mask] = [i for row in rows for i in row]
    types = mask & (positions >= np.array(first_lengths, np.int32)[:, None])
    return {
        "input_word_ids": ids,
        "input_mask": mask.astype(np.int32),
        "input_type_ids": types.astype(np.int32),
    }


def as_tensors(rows: dict[str, np.ndarray], kind: str) -> dict[str, Any]:
    """Converts arrays to "np" (as they are), "tf" or, in int64, "pt".

    Raises:
      ValueError: if `kind` is another one.
      InputError: if PyTorch is not installed.
    """
    if kind == "np":
        return rows
    if kind == "tf":
        tensorflow = import_package("tensorflow", "return_tensors='tf'")
        return {x: tensorflow.constant(y) for x, y in rows.items()}
    if kind == "pt":
        torch = import_package("torch", "return_tensors='pt'")
        # As transformers: its models need int64.
        return {x: torch.from_numpy(y.astype("int64")) for x, y in rows.items()}
    raise ValueError(
        f"return_tensors must be 'np', 'tf' or 'pt', not {kind!r}."
    )
