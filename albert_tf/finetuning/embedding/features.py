"""Features of texts whose embeddings are trained or computed."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.examples import EmbeddingExample
from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
    with_special_tokens,
)
from albert_tf.text.base_tokenizer import Tokenizer

# Column that tells which texts are equal; int32 `[examples, texts]`.
TEXT_HASHES = "text_hashes"

# Number of examples that are tokenized at a time.
_CHUNK = 4096

_KINDS = {
    (1, False): "texts",
    (2, False): "pairs",
    (3, False): "triplets",
    (2, True): "pairs with scores",
}


def training_features(
    examples: Iterable[EmbeddingExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
) -> Features:
    """Tokenizes the examples of a training set, all of one kind.

    Args:
      examples: the examples; may be an iterator.
      tokenizer: tokenizer of the model.
      max_seq_length: maximum length of a sequence, in tokens.

    Returns:
      Features with a sequence for each text of an example. Columns:
      `text_hashes` `[examples, texts]`, equal for texts with the same tokens;
      and for pairs with scores `labels`, float32 `[examples]`, as targets of
      the cosine: scores outside of [-1, 1] are mapped linearly, the lowest to 0
      and the highest to 1.

    Raises:
      InputError: if examples are of different kinds, or all scores are equal
        and outside of [-1, 1].
    """
    examples = iter(examples)
    first = next(examples, None)
    kind = _kind_of(first) if first else (1, False)
    builder = FeaturesBuilder(
        pad_id=tokenizer.pad_id, sequences_per_example=kind[0]
    )
    hashes: list[int] = []
    labels = []
    given = itertools.chain([first], examples) if first else examples
    for chunk in batched(given, _CHUNK):
        for example in chunk:
            if _kind_of(example) != kind:
                raise InputError(
                    f"{example.location}: {_KINDS[_kind_of(example)]}, but the "
                    f"examples before it are {_KINDS[kind]}; train on one kind "
                    "at a time"
                )
            labels.append(example.label)
        for ids in _sequences(chunk, tokenizer, max_seq_length):
            builder.append(*with_special_tokens(tokenizer, ids, None))
            hashes.append(zlib.crc32(np.asarray(ids, np.int32).tobytes()))
    columns = {
        TEXT_HASHES: np.array(hashes, np.uint32)
        .astype(np.int32)
        .reshape(-1, kind[0])
    }
    if kind[1]:
        columns[LABELS] = _targets(np.array(labels, np.float32))
    return builder.build(**columns)


def text_features(
    examples: Sequence[EmbeddingExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
) -> Features:
    """Tokenizes texts; each text of an example is one of the features."""
    builder = FeaturesBuilder(pad_id=tokenizer.pad_id)
    for ids in _sequences(examples, tokenizer, max_seq_length):
        builder.append(*with_special_tokens(tokenizer, ids, None))
    return builder.build()


def _sequences(
    examples: Sequence[EmbeddingExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
) -> Iterable[list[int]]:
    """Returns the pieces of all texts, which leave room for two tokens."""
    texts = [text for example in examples for text in example.texts]
    encoded = tokenizer.encode(texts, max_length=max_seq_length)
    return (ids[: max_seq_length - 2] for ids in encoded)


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
