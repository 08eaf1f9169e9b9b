"""Features of token classification: sequences of tokenized words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.finetuning.features import (
    LABELS,
    Features,
    FeaturesBuilder,
    batched,
)
from albert_tf.finetuning.serving import Preprocessor
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
    labels_of,
)
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import Segment, pack_to_longest
from albert_tf.text.preprocessor import EagerPreprocessor

# Label of tokens that the loss ignores.
IGNORED = -1

# Number of sentences that are tokenized at a time. Words that they share are
# tokenized once.
_CHUNK = 1024


class WordSequences(NamedTuple):
    """Sequences of sentences, and the positions of words in them.

    Attributes:
      inputs: the inputs of the encoder `[sequences, seq]`, padded to the
        longest.
      sequence_of: int32 `[words]`: the sequence of each word.
      position_of: int32 `[words]`: position of its first piece in the sequence.
    """

    inputs: Mapping[str, Any]
    sequence_of: Any
    position_of: Any


def word_sequences(
    preprocessor: Preprocessor,
    words: Any,
    counts: Any,
    max_seq_length: int,
    *,
    multiple: int = 1,
) -> WordSequences:
    """Tokenizes words, and splits long sentences into several sequences.

    Words are tokenized separately. A word without pieces, such as a control
    character, becomes the unknown piece. A word with more pieces than fit into
    a sequence is truncated. No word is split between sequences.

    Args:
      words: words of all sentences, strings `[words]`.
      counts: number of words in each sentence, int32 `[batch]`.
      multiple: see `pack_to_longest`.
    """
    ops, tokenizer = preprocessor.ops, preprocessor.tokenizer
    room = max_seq_length - 2
    pieces = _with_unknown(ops, preprocessor.segment(words), tokenizer.unk_id)
    lengths = ops.minimum(pieces.lengths, room)
    splits = ops.concat([[0], ops.cumsum(lengths[None])[0]], 0)
    is_begin = _sequence_begins(ops, splits, counts, room)
    begins = ops.flatnonzero(is_begin)
    sequence_of = ops.cumsum(ops.cast(is_begin, np.int32)[None])[0] - 1
    # Pieces of truncated words are left out.
    word_of = ops.repeat(ops.arange(ops.shape(lengths)[0]), lengths)
    piece = ops.arange(splits[-1]) + ops.gather(
        pieces.starts - splits[:-1], word_of
    )
    starts = ops.gather(splits, begins)
    ends = ops.concat([starts[1:], splits[-1:]], 0)
    sequences = Segment(ops.gather(pieces.ids, piece), starts, ends - starts)
    position = splits[:-1] - ops.gather(starts, sequence_of)
    return WordSequences(
        inputs=pack_to_longest(
            ops, tokenizer, [sequences], max_seq_length, multiple=multiple
        ),
        sequence_of=sequence_of,
        position_of=position + 1,  # after [CLS]
    )


def _with_unknown(ops: Any, pieces: Segment, unk_id: int) -> Segment:
    """Gives words without pieces the unknown piece."""
    return Segment(
        ops.concat([pieces.ids, [unk_id]], 0),
        ops.where(pieces.lengths == 0, ops.shape(pieces.ids)[0], pieces.starts),
        ops.maximum(pieces.lengths, 1),
    )


def _sequence_begins(ops: Any, splits: Any, counts: Any, room: int) -> Any:
    """Returns whether a sequence begins at each word, bool `[words]`.

    Args:
      splits: row splits of the words' pieces, int32 `[words + 1]`.
      counts: number of words in each sentence, int32 `[batch]`.
      room: maximum number of pieces in a sequence; no word has more.
    """
    num_words = ops.shape(splits)[0] - 1
    ends = ops.cumsum(counts[None])[0]
    end_of = ops.repeat(ends, counts)
    fitting = ops.searchsorted(splits, splits[:-1] + room) - 1
    # The first word of the next sequence, if a sequence begins at each word;
    # or `num_words`, if the sentence ends before.
    following = ops.where(fitting < end_of, fitting, num_words)
    following = ops.concat([following, ops.reshape(num_words, [1])], 0)

    def next_sequences(is_begin, current):
        is_begin = ops.replace(is_begin, current, current >= 0)
        return is_begin, ops.gather(following, current)

    # One iteration for each sequence of the longest sentence, usually one.
    is_begin, _ = ops.while_loop(
        lambda _, current: ops.largest(num_words - current) > 0,
        next_sequences,
        (
            ops.zeros([num_words + 1], ops.boolean),
            ops.where(counts > 0, ends - counts, num_words),
        ),
    )
    return is_begin[:-1]


def word_features(
    examples: Iterable[TokenClassificationExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    labels: Sequence[str] | None = None,
) -> Features:
    """Tokenizes sentences; see `word_sequences`.

    Returns:
      Features, whose `metadata` has for each sentence the sequence and the
      position of the first piece of each word, int64 `[2, words]`. With
      `labels`, the token column `labels` has the label of a word at its first
      piece, and `IGNORED` elsewhere.

    Raises:
      InputError: if labels are missing or not one of `labels`.
    """
    label_ids = None if labels is None else {x: i for i, x in enumerate(labels)}
    builder = FeaturesBuilder(
        pad_id=tokenizer.pad_id,
        token_padding={} if label_ids is None else {LABELS: IGNORED},
    )
    preprocessor = EagerPreprocessor(tokenizer, max_seq_length)
    positions: list[np.ndarray] = []
    for chunk in batched(examples, _CHUNK):
        words = [word for example in chunk for word in example.words]
        counts = [len(example.words) for example in chunk]
        inputs, sequence_of, position_of = word_sequences(
            preprocessor, words, np.array(counts, np.int32), max_seq_length
        )
        places = np.stack([sequence_of, position_of]).astype(np.int64)
        columns = {}
        if label_ids is not None:
            columns[LABELS] = np.full(inputs["input_mask"].shape, IGNORED)
            columns[LABELS][tuple(places)] = [
                label
                for example in chunk
                for label in labels_of(example, label_ids)
            ]
        places[0] += len(builder)
        positions += np.split(places, np.cumsum(counts)[:-1], axis=1)
        builder.extend({**inputs, **columns})
    return builder.build(positions)
