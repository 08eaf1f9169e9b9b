"""Model, loss and serving graph for token classification."""

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
    """ALBERT with a token classification head, which the original lacks.

    The sequence output goes through dropout and a dense layer. Inputs are the
    encoder's dict. The output is logits `[batch, seq, num_labels]`, float32 in
    any precision. Those of padding are meaningless, so `fit` needs sample
    weights `[batch, seq]` that are 0 there.

    Args:
      config: the architecture.
      num_labels: number of outputs per token.
      dropout: dropout rate of the sequence output.
      labels: names of the labels in the order of the logits, saved with the
        model.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `num_labels`, `dropout` or `labels` is not valid.
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
    """Cross-entropy of token labels, int32 `[batch, seq]`; -1 is ignored."""

    def weights(self, labels):
        """Returns 1 where a token has a label."""
        return tf.cast(labels >= 0, tf.float32)

    def losses(self, labels, outputs):
        """Returns cross-entropies, and 1 where the prediction is right."""
        return super().losses(tf.maximum(labels, 0), outputs)


def token_classification_graph(
    task_type: Any, model: AlbertTokenClassifier, packed: bool
) -> ServingGraph:
    """Returns the serving graph of a token classification task.

    Inputs are the strings `text` `[batch]`, which are split at white space like
    `str.split`, or `words` `[batch, words]`, padded with "". Outputs are:

    - `words`, strings `[batch, words]`, padded with ""
    - `labels`, strings `[batch, words]`: the most likely label of each word,
      padded with ""
    - `logits`, `probabilities`, float32 `[batch, words, labels]`, padded with 0

    Sequences equal those of `word_features`: long sentences have several.

    Args:
      task_type: the `TokenClassification`, with its tokenizer.
      model: the fine-tuned model.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: if `max_seq_length` exceeds the model's maximum.
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
            # [CLS] precedes the pieces.
            tf.stack(
                [sequences.sequence_of, sequences.position_of + 1], axis=-1
            ),
        )
        best = tf.gather(
            tf.constant(task_type.labels), tf.argmax(logits, axis=-1)
        )
        indices = tf.where(words != "")
        shape = tf.shape(words, tf.int64)

        def padded(values):
            return tf.scatter_nd(
                indices,
                values,
                tf.concat([shape, tf.shape(values, tf.int64)[1:]], 0),
            )

        return {
            "words": words,
            "labels": padded(best),
            "logits": padded(logits),
            "probabilities": padded(tf.nn.softmax(logits)),
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
    """Sequences of sentences, and the positions of words in them.

    Attributes:
      pieces: ragged int32 `[sequences, (pieces)]`.
      sequence_of: int64 `[words]`: the sequence of each word.
      position_of: int64 `[words]`: position of its first piece in the sequence.
    """

    pieces: tf.RaggedTensor
    sequence_of: tf.Tensor
    position_of: tf.Tensor


def _word_sequences(
    preprocessor: GraphPreprocessor, words: tf.Tensor, room: int
) -> _WordSequences:
    """Tokenizes words and splits sentences into sequences.

    The equivalent of `word_features` in a graph.

    Args:
      preprocessor: the preprocessor of the model.
      words: strings `[batch, words]`, padded with "".
      room: maximum number of pieces in a sequence.
    """
    is_word = words != ""
    pieces = preprocessor.tokenize(tf.boolean_mask(words, is_word))
    # Words without pieces get the unknown piece.
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
    # The pieces stay the same and in order, only the row splits change.
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
      splits: row splits of the words' pieces, int64 `[words + 1]`.
      counts: number of words in each sentence, int64 `[batch]`.
      room: maximum number of pieces in a sequence; no word has more.
    """
    ends = tf.cumsum(counts)
    end_of = tf.repeat(ends, counts)
    fitting = tf.searchsorted(splits, splits[:-1] + room, "right", tf.int64) - 1
    # The first word of the next sequence, if a sequence begins at each word.
    following = tf.minimum(fitting, end_of)

    def next_sequences(current, begins):
        candidates = tf.gather(following, current)
        current = tf.boolean_mask(
            candidates, candidates < tf.gather(end_of, current)
        )
        return current, tf.concat([begins, current], 0)

    # One iteration for each sequence of the longest sentence, usually one.
    first = tf.boolean_mask(ends - counts, counts > 0)
    unknown_size = tf.TensorShape([None])
    _, begins = tf.while_loop(
        lambda current, _: tf.size(current) > 0,
        next_sequences,
        (first, first),
        (unknown_size, unknown_size),
    )
    return tf.sort(begins)
