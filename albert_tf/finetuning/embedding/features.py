"""Features of texts whose embeddings are trained or computed."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Iterable

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.examples import EmbeddingExample
from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
)
from albert_tf.finetuning.serving import text_sequences
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import EagerPreprocessor

# Column that tells which texts are equal; int32 `[examples, texts]`.
TEXT_HASHES = "text_hashes"

# Number of examples that are tokenized at a time.
_CHUNK = 4096

# Number of texts, and whether they have scores -> what examples are.
KINDS = {
    (1, False): "texts",
    (2, False): "pairs",
    (3, False): "triplets",
    (2, True): "pairs with scores",
}


def text_features(
    examples: Iterable[EmbeddingExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
) -> Features:
    """Tokenizes the texts of examples, each as an example of its own."""
    builder = FeaturesBuilder(pad_id=tokenizer.pad_id)
    preprocessor = EagerPreprocessor(tokenizer, max_seq_length)
    for chunk in batched(examples, _CHUNK):
        texts = [text for example in chunk for text in example.texts]
        builder.extend(text_sequences(preprocessor, [texts], max_seq_length))
    return builder.build()


def training_features(
    examples: Iterable[EmbeddingExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
) -> Features:
    """Tokenizes the examples of a training set, all of one kind.

    There is a sequence for each text of an example. Columns are `text_hashes`
    `[examples, texts]`, equal for texts with the same tokens; and for pairs
    with scores `labels`, float32 `[examples]`, the targets of cosines: scores
    outside of [-1, 1] are mapped linearly, the lowest to 0, the highest to 1.

    Raises:
      InputError: if examples are of different kinds, or all scores are equal
        and outside of [-1, 1].
    """
    kinds, labels = [], []

    def checked():
        for example in examples:
            kinds.append(_kind_of(example))
            labels.append(example.label)
            if kinds[-1] != kinds[0]:
                raise InputError(
                    f"{example.location}: {KINDS[kinds[-1]]}, but the "
                    f"examples before it are {KINDS[kinds[0]]}; train on one "
                    "kind at a time"
                )
            yield example

    features = text_features(
        checked(), tokenizer, max_seq_length=max_seq_length
    )
    texts, has_scores = kinds[0] if kinds else (1, False)
    hashes = [
        # Without [CLS] and [SEP].
        zlib.crc32(features.ids[start + 1 : end - 1].tobytes())
        for start, end in itertools.pairwise(features.starts)
    ]
    columns = {
        TEXT_HASHES: np.array(hashes, np.uint32)
        .astype(np.int32)
        .reshape(-1, texts)
    }
    if has_scores:
        columns[LABELS] = _targets(np.array(labels, np.float32))
    return dataclasses.replace(
        features, sequences_per_example=texts, columns=columns
    )


def _kind_of(example: EmbeddingExample) -> tuple[int, bool]:
    return len(example.texts), example.label is not None


def _targets(scores: np.ndarray) -> np.ndarray:
    """Returns the cosines that scores stand for."""
    lowest, highest = float(scores.min()), float(scores.max())
    if -1 <= lowest and highest <= 1:
        return scores
    if lowest == highest:
        raise InputError(
            f"all scores are {lowest:g}, so their range is not known; scale "
            "them to [0, 1]"
        )
    return (scores - lowest) / (highest - lowest)
