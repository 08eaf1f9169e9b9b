"""Segments of ids, packed as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""

from collections.abc import Sequence

import numpy as np


def pack(
    firsts: Sequence[list[int]],
    seconds: Sequence[list[int]] | None,
    *,
    max_length: int,
    pad_to_max_length: bool,
    pad_id: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, np.ndarray]:
    """Packs a batch; pairs are trimmed round-robin.

    Trimming gives each segment of a pair one id in turn, the first one first,
    until the row is full: three free places become 2 + 1, and what a short
    segment leaves goes to the other. `AlbertPreprocessor.bert_pack_inputs`
    does the same in the graph.

    Args:
      firsts: the ids of each row's first segment.
      seconds: those of the second, or None.
      max_length: longest row, with `[CLS]` and `[SEP]`.
      pad_to_max_length: pad to `max_length`, else to the longest row.
      pad_id: fills the rows; mask and types are 0 there.
      cls_id: begins each row.
      sep_id: ends each segment.

    Returns:
      `input_word_ids`, `input_mask`, `input_type_ids`, int32 `[batch, seq]`.
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
    width = max_length if pad_to_max_length else int(lengths.max(initial=0))
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
