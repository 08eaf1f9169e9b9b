"""`WordPieceTokenizer` as TensorFlow operations."""

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text.graph_offsets import character_offsets
from albert_tf.text.graph_word_splitter import GraphWords, GraphWordSplitter
from albert_tf.text.wordpiece import CONTINUATION
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

# A word that is in no vocabulary, whose pieces are lines.
_UNKNOWN = "\n"
_UTF8_BYTES = 4  # of a character, at most


class GraphWordPiece(tf.Module):
    """A `WordPieceTokenizer` for tensors, but for special tokens in texts."""

    def __init__(self, tokenizer: WordPieceTokenizer):
        """Bakes the vocabulary.

        Raises:
          InputError: see `GraphWordSplitter`.
        """
        super().__init__(name="wordpiece")
        self._splitter = GraphWordSplitter(tokenizer.normalizer)
        self._max_characters = tokenizer.max_characters_per_word
        # Of equal pieces the last counts.
        ids = {tokenizer.id_to_piece(i): i for i in range(tokenizer.vocab_size)}
        with tf.init_scope(), tf.device("CPU:0"):
            self._table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    tf.constant(list(ids)),
                    tf.constant(list(ids.values()), tf.int64),
                ),
                tokenizer.unk_id,
            )
        self._wordpiece = tf_text.WordpieceTokenizer(
            self._table,
            suffix_indicator=CONTINUATION,
            # Never reached, as words are measured in characters.
            max_bytes_per_word=_UTF8_BYTES * self._max_characters + 1,
            token_out_type=tf.int32,
            unknown_token=tokenizer.id_to_piece(tokenizer.unk_id),
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids, ragged int32 `[batch, (tokens)]`."""
        words = self._splitter(texts)
        return _of_texts(words, self._wordpiece.tokenize(self._encode(words)))

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Returns ids, starts and limits in bytes, `[batch, (tokens)]`."""
        words = self._splitter.align(texts)
        encoded = self._encode(words)
        ids, begins, ends = self._wordpiece.tokenize_with_offsets(encoded)
        # A word that is too long is one token, whatever stands for it.
        limits = words.characters.row_limits()
        is_replaced = tf.gather(encoded == _UNKNOWN, ids.value_rowids())
        first = character_offsets(words.characters, begins)
        last = tf.where(
            is_replaced,
            tf.gather(limits, ids.value_rowids()),
            character_offsets(words.characters, ends),
        )
        ids = _of_texts(words, ids)
        return (
            ids,
            ids.with_values(tf.gather(words.starts, first)),
            ids.with_values(tf.gather(words.limits, last - 1)),
        )

    def _encode(self, words: GraphWords) -> tf.Tensor:
        """Returns tf.string `[words]`; too long ones are `_UNKNOWN`."""
        return tf.where(
            words.characters.row_lengths() > self._max_characters,
            _UNKNOWN,
            tf.strings.unicode_encode(words.characters, "UTF-8"),
        )


def _of_texts(words: GraphWords, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Turns `[words, (pieces)]` into `[batch, (pieces)]`."""
    return tf.RaggedTensor.from_row_splits(
        pieces.values,
        tf.gather(pieces.row_splits, words.row_splits),
        validate=False,
    )
