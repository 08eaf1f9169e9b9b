"""The search for special tokens as TensorFlow operations."""

import itertools
from typing import NamedTuple

import tensorflow as tf

from albert_tf.text.special_tokens import SpecialTokens


class GraphParts(NamedTuple):
    """The stretches of texts between special tokens, and these themselves.

    Attributes:
      row_splits: int64 `[batch + 1]`, which parts are those of each text.
      texts: tf.string `[parts]`; empty for a special token.
      starts: int64 `[parts]`, where each part begins in its text, in bytes.
      limits: int64 `[parts]`, where it ends.
      is_special: bool `[parts]`.
      special_ids: int32 `[parts]`, the ids of those that are special tokens.
    """

    row_splits: tf.Tensor
    texts: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor
    is_special: tf.Tensor
    special_ids: tf.Tensor

    def join(
        self, plain: tf.RaggedTensor, special: tf.Tensor
    ) -> tf.RaggedTensor:
        """Returns what there is of each token of the texts.

        Args:
          plain: ragged `[parts, (tokens)]`, what there is of the tokens of
            `texts`.
          special: `[parts]`, what there is of special tokens.

        Returns:
          Ragged `[batch, (tokens)]`.
        """
        special = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(special, self.is_special),
            tf.cast(self.is_special, tf.int64),
            validate=False,
        )
        tokens = tf.concat([plain, special], 1)
        return tf.RaggedTensor.from_row_splits(
            tokens.values,
            tf.gather(tokens.row_splits, self.row_splits),
            validate=False,
        )


class GraphSpecialTokens:
    """A `SpecialTokens` for tensors."""

    def __init__(self, special_tokens: SpecialTokens):
        """Keeps the patterns.

        Texts are split at a mark that no text has: in texts, what begins the
        mark is followed by another character. (`tf_text.regex_split` would need
        no mark, but cuts a text at its first NUL.) As no token has one of these
        characters, none is found in what was put there.
        """
        in_tokens = set().union(*special_tokens.ids)
        unused = (c for c in map(chr, itertools.count(1)) if c not in in_tokens)
        self._escape, after, in_mark = itertools.islice(unused, 3)
        self._escaped = self._escape + after
        self._mark = self._escape + in_mark
        self._any = special_tokens.any_pattern
        self._ids = {
            special_tokens.pattern(token): piece_id
            for token, piece_id in special_tokens.ids.items()
        }

    def split(self, texts: tf.Tensor) -> GraphParts:
        """Cuts `[batch]` strings at special tokens."""
        marked = tf.strings.regex_replace(texts, self._escape, self._escaped)
        marked = tf.strings.regex_replace(
            marked, self._any, f"{self._mark}\\1{self._mark}"
        )
        parts = tf.strings.split(marked, self._mark)
        words = tf.strings.regex_replace(
            parts.values, self._escaped, self._escape
        )
        lengths = tf.cast(tf.strings.length(words, "BYTE"), tf.int64)
        borders = tf.concat([[0], tf.cumsum(lengths)], 0)
        begins = tf.gather(
            borders, tf.gather(parts.row_splits, parts.value_rowids())
        )

        ids = tf.fill(tf.shape(words), -1)
        for pattern, piece_id in self._ids.items():
            is_token = tf.strings.regex_full_match(words, pattern)
            ids = tf.where(is_token, piece_id, ids)
        # In this way TensorFlow knows the batch size wherever it does of texts.
        num_parts = tf.reshape(parts.row_lengths(), tf.shape(texts))
        return GraphParts(
            row_splits=tf.concat([[0], tf.cumsum(num_parts)], 0),
            texts=tf.where(ids >= 0, "", words),
            starts=borders[:-1] - begins,
            limits=borders[1:] - begins,
            is_special=ids >= 0,
            special_ids=ids,
        )
