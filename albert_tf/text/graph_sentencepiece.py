"""`AlbertTokenizer` as TensorFlow operations."""

import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops import sentencepiece_tokenizer

from albert_tf.text.graph_digit_comma import GraphDigitComma
from albert_tf.text.graph_normalizer import GraphNormalizer
from albert_tf.text.graph_offsets import character_offsets
from albert_tf.text.tokenizer import AlbertTokenizer


class GraphSentencePiece(tf.Module):
    """An `AlbertTokenizer` for tensors, but for special tokens in texts."""

    def __init__(self, tokenizer: AlbertTokenizer):
        """Bakes the model, and the tables of its normalizer."""
        super().__init__(name="sentencepiece")
        self._normalizer = GraphNormalizer(tokenizer.normalizer)
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            model=tokenizer.model_bytes, out_type=tf.int32
        )
        self._sentencepiece._model_resource = _SharedModel(tokenizer)
        self._digit_comma = GraphDigitComma(
            tokenizer.splits, tokenizer.vocab_size
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids, ragged int32 `[batch, (tokens)]`."""
        ids = self._sentencepiece.tokenize(self._normalizer(texts))
        return self._digit_comma.split(ids)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, starts and limits in bytes, `[batch, (tokens)]`."""
        source = self._normalizer.align(texts)
        ids, begins, ends = self._sentencepiece.tokenize_with_offsets(
            source.texts
        )
        # From here to `starts`, places are characters of all normalized texts
        # laid end to end.
        begins = character_offsets(source.code_points, begins)
        ends = character_offsets(source.code_points, ends)
        begins, ends = self._digit_comma.divide(ids, begins, ends)

        tokens = self._digit_comma.split(ids)
        text_of = tokens.value_rowids()
        # A token without text, of a blank that SentencePiece adds, is where
        # the next character begins, or at the end of the text.
        text_limits = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        is_past_text = begins == tf.gather(
            source.code_points.row_splits, text_of + 1
        )
        starts = tf.where(
            is_past_text,
            tf.gather(text_limits, text_of),
            _gather_within(source.starts, begins),
        )
        limits = tf.where(
            ends > begins, _gather_within(source.limits, ends - 1), starts
        )
        return tokens, tokens.with_values(starts), tokens.with_values(limits)


class _SharedModel(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model that a process holds under its sha256.

    TensorFlow Text's own belongs to the operation that made it, which is in a
    cache that `tf.random.set_seed` and `keras.utils.set_random_seed` clear:
    after them, every use of a tokenizer would fail.
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        self._model = tokenizer.model_bytes
        self._shared_name = f"sentencepiece-{tokenizer.fingerprint}"
        self.resource_handle  # noqa: B018  Made now, and not in a graph.

    def _create_resource(self):
        operations = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
        return operations.sentencepiece_op(
            model=self._model, shared_name=self._shared_name
        )


def _gather_within(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Gathers, with indices moved to the nearest that exists."""
    last = tf.size(values, tf.int64) - 1
    return tf.gather(values, tf.clip_by_value(indices, 0, last))
