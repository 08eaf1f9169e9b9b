"""Model, loss and exported graph of token classification."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.serving import TEXTS, ServingGraph, split
from albert_tf.models.base import with_attentions
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.preprocessor import GraphPreprocessor


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertTokenClassifier(LabelHeadModel):
    """Sequence output -> dropout -> dense. The original has no such model.

    Inputs are the encoder's dict. The output is float32 logits
    `[batch, seq, num_labels]` whatever the precision; on padding they are
    meaningless, so `fit` needs sample weights `[batch, seq]` that are 0 there.

    Args:
      config: the architecture.
      num_labels: size of the output at each token.
      dropout: of the sequence output.
      labels: names of the labels in the order of the logits, kept with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `num_labels`, `dropout` or `labels`.
    """

    HEAD = "token_head"
    NAME = "token_classifier"
    POOLER = False

    def call(self, inputs, training=False):
        """Maps the input dict to logits `[batch, seq, num_labels]`."""
        outputs = self.encoder(inputs, training=training)
        states = self.dropout(outputs["sequence_output"], training=training)
        logits = self.token_head(states)
        return with_attentions(logits, outputs.get("attentions"))


class TokenClassificationLoss(CrossEntropyLoss):
    """Cross-entropy of tokens with labels, int32 `[batch, seq]`; -1 is none."""

    def weights(self, labels):
        """Returns 1 where a token has a label."""
        return tf.cast(labels >= 0, tf.float32)

    def losses(self, labels, outputs):
        """Returns cross-entropies and hits; see the base class."""
        return super().losses(tf.maximum(labels, 0), outputs)


def token_classification_graph(
    task_type: Any, model: AlbertTokenClassifier, packed: bool
) -> ServingGraph:
    """Returns the exported graph of a task of labels of words.

    Inputs: `text` `[batch]`, which is split at whitespace as `str.split` does;
    or `words` `[batch, words]`, where "" is no word but padding. Outputs, with
    as many places as there are in `words` or in the longest text:

    - `words`, strings `[batch, words]`: what the labels are of, "" for padding
    - `labels`, strings `[batch, words]`: the most likely ones, "" for padding
    - `logits`, `probabilities`, float32 `[batch, words, labels]`: of each word,
      zeros for padding

    Sequences are those of `word_features`: a long sentence has several.

    Args:
      task_type: the `TokenClassification`, with its tokenizer.
      model: the fine-tuned model.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: `max_seq_length` is beyond the model's.
    """
    length = task_type.max_seq_length
    preprocessor = GraphPreprocessor(task_type.tokenizer, length)
    graph = ModelGraph(model, packed)

    def call(inputs: Tensors, training: bool) -> Tensors:
        if "text" in inputs:
            words = split(inputs["text"]).to_tensor("")
        else:
            words = inputs["words"]
        sequences = _word_sequences(preprocessor, words, length - 2)
        batch = preprocessor.pack_to_longest([sequences.pieces], length)
        logits = tf.gather_nd(
            graph(batch, training),
            # [CLS] comes first.
            tf.stack(
                [sequences.sequence_of, sequences.position_of + 1], axis=-1
            ),
        )
        best = tf.gather(
            tf.constant(task_type.labels), tf.argmax(logits, axis=-1)
        )
        places = tf.where(words != "")
        shape = tf.shape(words, tf.int64)

        def at_places(values):
            return tf.scatter_nd(
                places,
                values,
                tf.concat([shape, tf.shape(values, tf.int64)[1:]], 0),
            )

        return {
            "words": words,
            "labels": at_places(best),
            "logits": at_places(logits),
            "probabilities": at_places(tf.nn.softmax(logits)),
        }

    return ServingGraph(
        model=graph,
        preprocessor=preprocessor,
        inputs={"text": TEXTS},
        call=call,
        max_seq_length=length,
        labels=task_type.labels,
        other_inputs={
            "words": {"words": tf.TensorSpec([None, None], tf.string)}
        },
    )


class _WordSequences(NamedTuple):
    """The sequences of sentences, and where in them their words are.

    Attributes:
      pieces: ragged int32 `[sequences, (pieces)]`.
      sequence_of: int64 `[words]`: the sequence that a word is in.
      position_of: int64 `[words]`: where in `pieces` of the sequence it begins.
    """

    pieces: tf.RaggedTensor
    sequence_of: tf.Tensor
    position_of: tf.Tensor


def _word_sequences(
    preprocessor: GraphPreprocessor, words: tf.Tensor, room: int
) -> _WordSequences:
    """Tokenizes words and puts them into sequences, as `word_features` does.

    Args:
      preprocessor: of the model.
      words: strings `[batch, words]`; "" is left out.
      room: pieces of the longest sequence.
    """
    is_word = words != ""
    pieces = preprocessor.tokenize(tf.boolean_mask(words, is_word))
    # One that has no piece gets that of the unknown.
    missing = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(missing)], preprocessor.tokenizer.unk_id),
        missing,
    )
    pieces = tf.concat([pieces[:, :room], unknown], axis=1)
    counts = tf.math.count_nonzero(is_word, axis=1)
    begins = _sequence_begins(pieces.row_splits, counts, room)
    word = tf.range(pieces.nrows())
    sequence_of = tf.searchsorted(begins, word, "right", tf.int64) - 1
    # Features have all pieces, one after the other: only the borders differ.
    begin_pieces = tf.gather(pieces.row_starts(), begins)
    splits = tf.concat([begin_pieces, pieces.row_splits[-1:]], 0)
    return _WordSequences(
        pieces=tf.RaggedTensor.from_row_splits(pieces.values, splits),
        sequence_of=sequence_of,
        position_of=pieces.row_starts() - tf.gather(begin_pieces, sequence_of),
    )


def _sequence_begins(
    splits: tf.Tensor, counts: tf.Tensor, room: int
) -> tf.Tensor:
    """Returns the first word of each sequence, int64 `[sequences]`.

    Args:
      splits: where the pieces of each word begin, and where all end, int64
        `[words + 1]`.
      counts: words of each sentence, int64 `[batch]`.
      room: pieces of the longest sequence; no word has more.
    """
    ends = tf.cumsum(counts)
    end_of = tf.repeat(ends, counts)
    fitting = tf.searchsorted(splits, splits[:-1] + room, "right", tf.int64) - 1
    # Of each word: what the next sequence begins with if it begins a sequence.
    following = tf.minimum(fitting, end_of)

    def next_sequences(current, begins):
        candidates = tf.gather(following, current)
        current = tf.boolean_mask(
            candidates, candidates < tf.gather(end_of, current)
        )
        return current, tf.concat([begins, current], 0)

    # As often as the longest sentence has sequences: for most batches once.
    first = tf.boolean_mask(ends - counts, counts > 0)
    unknown_size = tf.TensorShape([None])
    _, begins = tf.while_loop(
        lambda current, _: tf.size(current) > 0,
        next_sequences,
        (first, first),
        (unknown_size, unknown_size),
    )
    return tf.sort(begins)
