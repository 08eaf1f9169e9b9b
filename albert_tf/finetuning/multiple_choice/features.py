"""Features of multiple choice: questions with each of their options."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
)
from albert_tf.finetuning.multiple_choice.examples import MultipleChoiceExample
from albert_tf.finetuning.serving import Preprocessor, strip
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.normalizer import replace_surrogates
from albert_tf.text.packing import Segment, pack_to_longest
from albert_tf.text.preprocessor import EagerPreprocessor

# Number of questions that are tokenized at a time. Passages that they share are
# tokenized once.
_CHUNK = 256

# Characters that the tokenizer's normalization (NFKD) turns into low lines. The
# original looks for blanks after it.
_BLANKS = "[\ufe33\ufe34\ufe4d\ufe4e\ufe4f\uff3f]"


def choice_sequences(
    preprocessor: Preprocessor,
    contexts: Any,
    questions: tf.Tensor,
    options: tf.Tensor,
    *,
    example: Any,
    max_seq_length: int,
    max_qa_length: int,
    multiple: int = 1,
) -> dict[str, Any]:
    """Makes the sequences of options like the original (race_utils.py).

    They are `[CLS] passage [SEP] question option [SEP]`. The option replaces
    each `_` of the question, or else is appended to it. Question and option are
    truncated to their last `max_qa_length` pieces, the passage to the first
    pieces that fit.

    Args:
      contexts: passages, strings `[batch]`.
      questions: strings `[batch]`.
      options: strings `[options]`, those of all questions.
      example: the question of each option, int `[options]`.
      max_qa_length: maximum number of pieces of question and option, at most
        `max_seq_length - 3`.
      multiple: see `pack_to_longest`.

    Returns:
      The inputs of the encoder `[options, seq]`, padded to the longest.
    """
    ops = preprocessor.ops
    texts = _questions_with_options(tf.gather(questions, example), options)
    second = preprocessor.segment(texts)
    skipped = ops.maximum(second.lengths - max_qa_length, 0)
    second = Segment(
        second.ids, second.starts + skipped, second.lengths - skipped
    )
    # Each passage is tokenized once for all options.
    first = preprocessor.segment(contexts)
    first = Segment(
        first.ids,
        ops.gather(first.starts, example),
        ops.minimum(
            ops.gather(first.lengths, example),
            max_seq_length - 3 - second.lengths,
        ),
    )
    return pack_to_longest(
        ops,
        preprocessor.tokenizer,
        [first, second],
        max_seq_length,
        multiple=multiple,
    )


def choice_features(
    examples: Iterable[MultipleChoiceExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int = 512,
    max_qa_length: int = 128,
    labelled: bool = False,
) -> Features:
    """Tokenizes questions; see `choice_sequences`.

    With labels, the options of a question are one example. Without them, each
    option is an example of its own, so that questions may have different
    numbers of options.

    Raises:
      InputError: if `labelled`, and a label is missing, or questions have
        different numbers of options.
    """
    builder = FeaturesBuilder(pad_id=tokenizer.pad_id)
    preprocessor = EagerPreprocessor(tokenizer)
    labels: list[int] = []
    count = 1
    for chunk in batched(examples, _CHUNK):
        if labelled:
            count = count if labels else len(chunk[0].options)
            labels += [_label(example, count) for example in chunk]
        options = [option for example in chunk for option in example.options]
        sequences = choice_sequences(
            preprocessor,
            [example.passage for example in chunk],
            _strings([example.question for example in chunk]),
            _strings(options),
            example=np.repeat(
                np.arange(len(chunk)), [len(x.options) for x in chunk]
            ),
            max_seq_length=max_seq_length,
            max_qa_length=max_qa_length,
        )
        builder.extend(sequences)
    if not labelled:
        return builder.build()
    return dataclasses.replace(
        builder.build(),
        sequences_per_example=count,
        columns={LABELS: np.array(labels, np.int32)},
    )


def _label(example: MultipleChoiceExample, count: int) -> int:
    if len(example.options) != count:
        raise InputError(
            f"{example.location}: {len(example.options)} options, but previous "
            f"questions have {count}; the number must be the same for training"
        )
    if example.label is None:
        raise InputError(
            f"{example.location}: no label to train on; leave the question out"
        )
    return example.label


def _strings(texts: Sequence[str]) -> tf.Tensor:
    return tf.constant(list(map(replace_surrogates, texts)), tf.string)


@tf.function(
    input_signature=[tf.TensorSpec([None], tf.string)] * 2, autograph=False
)
def _questions_with_options(
    questions: tf.Tensor, options: tf.Tensor
) -> tf.Tensor:
    """Fills options into the blanks of questions, or appends them."""
    questions, options = strip(questions), strip(options)
    segments = tf.strings.split(
        tf.strings.regex_replace(questions, _BLANKS, "_"), "_"
    )
    option = tf.gather(options, segments.value_rowids())
    is_first = tf.ragged.range(segments.row_lengths()).values == 0
    filled = segments.with_values(
        tf.where(is_first, segments.values, option + segments.values)
    )
    return tf.where(
        segments.row_lengths() > 1,
        tf.strings.reduce_join(filled, axis=1),
        questions + " " + options,
    )
