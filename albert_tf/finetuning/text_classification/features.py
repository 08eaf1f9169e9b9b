"""Features of texts and text pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import finite_number
from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
)
from albert_tf.finetuning.serving import text_sequences
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import EagerPreprocessor

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
    """Tokenizes texts and text pairs; see `text_sequences`.

    Args:
      max_seq_length: maximum length of a sequence, at least 4, and 5 for pairs.
      labels: names of the classes in the order of the model's outputs; None if
        labels are numbers (regression).
      labelled: whether to add the column `labels` `[examples]`: int32 indices
        into `labels`, or float32 numbers.

    Raises:
      InputError: if a label is missing, not one of `labels`, or not a number.
    """
    builder = FeaturesBuilder(pad_id=tokenizer.pad_id)
    label_ids = None if labels is None else {x: i for i, x in enumerate(labels)}
    values = []
    preprocessor = EagerPreprocessor(tokenizer, max_seq_length)
    for chunk in batched(examples, _CHUNK):
        texts = [[example.text for example in chunk]]
        if any(example.pair for example in chunk):
            texts.append([example.pair or "" for example in chunk])
        builder.extend(text_sequences(preprocessor, texts, max_seq_length))
        if labelled:
            values += [_label(example, label_ids) for example in chunk]
    if not labelled:
        return builder.build()
    dtype = np.float32 if label_ids is None else np.int32
    return builder.build(**{LABELS: np.array(values, dtype)})


def _label(example: TextExample, label_ids: dict[str, int] | None) -> float:
    label = example.label
    if label is None:
        raise InputError(
            f"{example.location}: no label to train on; leave the example out"
        )
    if label_ids is None:
        if (number := finite_number(label)) is not None:
            return number
        raise InputError(f"{example.location}: label {label!r} is not a number")
    if label not in label_ids:
        raise InputError(
            f"{example.location}: label {label!r} is not one of "
            f"{', '.join(label_ids)}"
        )
    return label_ids[label]
