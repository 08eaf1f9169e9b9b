"""Features of texts and pairs of texts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import Features, FeaturesBuilder
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.text.base_tokenizer import Tokenizer

LABELS = "labels"

# Texts that are tokenized at a time.
_CHUNK = 4096


def text_features(
    examples: Iterable[TextExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    labels: Sequence[str] | None = None,
    labelled: bool = True,
    num_threads: int = -1,
) -> Features:
    """Tokenizes texts and pairs of texts.

    Where A and B together are too long, the longer one loses its last piece
    until they fit, B where they are equally long; a text without a second one,
    or whose second one has no pieces, is cut to `max_seq_length - 2`
    (run_classifier.py of the original).

    Args:
      examples: read once, in order; sequence i is that of example i.
      tokenizer: of the model.
      max_seq_length: most tokens of a sequence, at least 4.
      labels: the names of the classes, in the order of the model's outputs;
        None where labels are numbers (regression).
      labelled: whether the examples have labels that are to be used.
      num_threads: see `Tokenizer.encode`.

    Returns:
      Features; if `labelled`, with a column `labels`: int32 `[examples]`,
      indices into `labels`, or float32 `[examples]`.

    Raises:
      InputError: a label is missing, is not among `labels` or is no number, or
        `max_seq_length` is too small.
    """
    if max_seq_length < 4:
        raise InputError(
            f"max_seq_length={max_seq_length} must be at least 4, to hold "
            "[CLS], [SEP] and a piece"
        )
    builder = FeaturesBuilder(pad_id=tokenizer.pad_id)
    places = None if labels is None else {x: i for i, x in enumerate(labels)}
    values = []
    examples = iter(examples)
    while chunk := list(itertools.islice(examples, _CHUNK)):
        firsts = tokenizer.encode(
            [example.text for example in chunk],
            num_threads=num_threads,
            max_length=max_seq_length,
        )
        pairs = [x.pair for x in chunk if x.pair is not None]
        seconds = iter(
            tokenizer.encode(
                pairs, num_threads=num_threads, max_length=max_seq_length
            )
        )
        for example, first in zip(chunk, firsts, strict=True):
            second = [] if example.pair is None else next(seconds)
            first, second = truncate(first, second, max_seq_length)
            ids = [tokenizer.cls_id, *first, tokenizer.sep_id]
            types = [0] * len(ids)
            if second:
                ids += [*second, tokenizer.sep_id]
                types += [1] * (len(second) + 1)
            builder.append(ids, types)
            if labelled:
                values.append(_label(example, places))
    if not labelled:
        return builder.build()
    dtype = np.float32 if places is None else np.int32
    return builder.build(**{LABELS: np.array(values, dtype)})


def truncate(
    first: list[int], second: list[int], max_seq_length: int
) -> tuple[list[int], list[int]]:
    """Cuts the pieces of a text, or of two, to what a sequence has room for.

    Args:
      first: of A.
      second: of B; empty for none.
      max_seq_length: tokens of a sequence, with `[CLS]` and `[SEP]`.
    """
    if not second:
        return first[: max_seq_length - 2], second
    room = max_seq_length - 3
    if len(first) + len(second) > room:
        # What popping from the longer one ends with: B keeps half of the room,
        # rounded down, or what A leaves.
        kept = min(len(second), max(room // 2, room - len(first)))
        first, second = first[: room - kept], second[:kept]
    return first, second


def _label(example: TextExample, places: dict[str, int] | None) -> float:
    label = example.label
    if label is None:
        raise InputError(f"{example.location}: no label")
    if places is None:
        try:
            number = float(label)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
        raise InputError(f"{example.location}: label {label!r} is no number")
    if label not in places:
        raise InputError(
            f"{example.location}: label {label!r} is not one of "
            f"{', '.join(places)}"
        )
    return places[label]
