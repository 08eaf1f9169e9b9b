"""Features of texts and text pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
    with_special_tokens,
)
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.text.base_tokenizer import Tokenizer

# Number of examples that are tokenized at a time.
_CHUNK = 4096


def text_features(
    examples: Iterable[TextExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    labels: Sequence[str] | None = None,
    labelled: bool = True,
) -> Features:
    """Tokenizes texts and text pairs.

    Texts that are too long are truncated like in the original
    (run_classifier.py): the last piece of the longer text is removed, or of the
    second if they have the same length, until the pair fits. If there is no
    second text, or it has no pieces, the first is cut to `max_seq_length - 2`.

    Args:
      examples: the examples; may be an iterator.
      tokenizer: tokenizer of the model.
      max_seq_length: maximum length of a sequence, at least 4.
      labels: names of the classes in the order of the model's outputs; None if
        labels are numbers (regression).
      labelled: whether to add the labels.

    Returns:
      Features. If `labelled`, they have a column `labels` `[examples]`: int32
      indices into `labels`, or float32 numbers.

    Raises:
      InputError: if a label is missing, not one of `labels`, or not a number.
    """
    builder = FeaturesBuilder(pad_id=tokenizer.pad_id)
    label_ids = None if labels is None else {x: i for i, x in enumerate(labels)}
    values = []
    for chunk in batched(examples, _CHUNK):
        texts = [example.text for example in chunk]
        pairs = [x.pair for x in chunk if x.pair is not None]
        firsts = tokenizer.encode(texts, max_length=max_seq_length)
        seconds = iter(tokenizer.encode(pairs, max_length=max_seq_length))
        for example, first in zip(chunk, firsts, strict=True):
            second = [] if example.pair is None else next(seconds)
            first, second = truncate(first, second, max_seq_length)
            builder.append(
                *with_special_tokens(tokenizer, first, second or None)
            )
            if labelled:
                values.append(_label(example, label_ids))
    if not labelled:
        return builder.build()
    dtype = np.float32 if label_ids is None else np.int32
    return builder.build(**{LABELS: np.array(values, dtype)})


def truncate(
    first: list[int], second: list[int], max_seq_length: int
) -> tuple[list[int], list[int]]:
    """Truncates the pieces of one or two texts so that they fit a sequence."""
    if not second:
        return first[: max_seq_length - 2], second
    room = max_seq_length - 3
    if len(first) + len(second) > room:
        # The result of popping from the longer text: the second keeps half of
        # the room, rounded down, or what the first one leaves.
        kept = min(len(second), max(room // 2, room - len(first)))
        first, second = first[: room - kept], second[:kept]
    return first, second


def _label(example: TextExample, label_ids: dict[str, int] | None) -> float:
    label = example.label
    if label is None:
        raise InputError(f"{example.location}: no label")
    if label_ids is None:
        try:
            number = float(label)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
        raise InputError(f"{example.location}: label {label!r} is not a number")
    if label not in label_ids:
        raise InputError(
            f"{example.location}: label {label!r} is not one of "
            f"{', '.join(label_ids)}"
        )
    return label_ids[label]
