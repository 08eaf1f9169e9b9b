"""The SentencePiece tokenizer as TensorFlow operations."""

import hashlib
import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops import sentencepiece_tokenizer

from albert_tf.text.graph_normalizer import (
    GraphNormalizer,
    character_offsets,
    replace_elements,
    replaced_lengths,
)
from albert_tf.text.sentencepiece_model import SplitPiece
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokens import SpecialTokens

# A distance from the end of a piece that is longer than any piece.
_WHOLE_PIECE = tf.int32.max


class GraphDigitComma(tf.Module):
    """Applies the table of `split_digit_commas` to ragged ids."""

    def __init__(
        self, splits: Mapping[int, tuple[SplitPiece, ...]], vocab_size: int
    ):
        super().__init__(name="digit_comma")
        row_of = np.full([vocab_size], -1, np.int32)
        row_of[list(splits)] = np.arange(len(splits))
        parts = [part for row in splits.values() for part in row]
        # The first part of a piece starts where the piece does.
        starts = [
            part.start if i else _WHOLE_PIECE
            for row in splits.values()
            for i, part in enumerate(row)
        ]
        with tf.init_scope(), tf.device("CPU:0"):
            row_splits = tf.constant(
                np.cumsum([0, *map(len, splits.values())]), tf.int64
            )

            def rows(values):
                return tf.RaggedTensor.from_row_splits(
                    tf.constant(values, tf.int32), row_splits
                )

            self._row_of = tf.constant(row_of)
            self._ids = rows([part.id for part in parts])
            self._starts = rows(starts)
            self._ends = rows([part.end for part in parts])

    def split(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Splits pieces in ids `[batch, (tokens)]`."""
        indices, row_ids = self._find(ids)
        return replace_elements(ids, indices, self._ids, row_ids)

    def split_offsets(
        self, ids: tf.RaggedTensor, begins: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the offsets of the tokens that `split` returns.

        `begins` and `ends`, int64 `[all tokens]`, are those of the tokens in
        `ids`: the first character, and the one after the last.
        """
        indices, row_ids = self._find(ids)

        def part_of(whole: int, rows: tf.RaggedTensor) -> tf.Tensor:
            wholes = ids.with_values(tf.fill(tf.shape(ids.values), whole))
            parts = replace_elements(wholes, indices, rows, row_ids)
            return tf.cast(parts.values, tf.int64)

        repeats = replaced_lengths(ids, indices, self._ids, row_ids)
        begins = tf.repeat(begins, repeats)
        ends = tf.repeat(ends, repeats)
        return (
            tf.maximum(begins, ends - part_of(_WHOLE_PIECE, self._starts)),
            tf.maximum(begins, ends - part_of(0, self._ends)),
        )

    def _find(self, ids: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the flat indices of the pieces to split, and their rows."""
        row_of = tf.gather(self._row_of, ids.values)
        indices = tf.where(row_of >= 0)[:, 0]
        return indices, tf.cast(tf.gather(row_of, indices), tf.int64)


class GraphParts(NamedTuple):
    """Texts split at special tokens; the counterpart of `TextPart`.

    Attributes:
      row_splits: int64 `[batch + 1]`, which parts belong to each text.
      texts: tf.string `[parts]`; empty for a special token.
      starts, ends: int64 `[parts]`, offsets of each part in its text, in bytes.
      is_special: bool `[parts]`.
      special_ids: int32 `[parts]`, the ids of special tokens.
    """

    row_splits: tf.Tensor
    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    is_special: tf.Tensor
    special_ids: tf.Tensor

    def join(
        self, plain: tf.RaggedTensor, special: tf.Tensor
    ) -> tf.RaggedTensor:
        """Merges values, such as ids, of ordinary and special tokens.

        Args:
          plain: ragged `[parts, (tokens)]`, values for the tokens of `texts`.
          special: `[parts]`, values for the special tokens.

        Returns:
          Ragged `[batch, (tokens)]`, in the order of the text.
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
    """A `SpecialTokens` for string tensors."""

    def __init__(self, special_tokens: SpecialTokens):
        """Prepares the regular expressions.

        Texts are split at a separator that cannot occur in them, since its
        first character is escaped there. The characters used are in no special
        token, so none is matched in separators or escapes.
        (`tf_text.regex_split` truncates a text at its first NUL.)
        """
        in_tokens = set().union(*special_tokens.ids)
        unused = (c for c in map(chr, itertools.count(1)) if c not in in_tokens)
        self._escape, literal, separates = itertools.islice(unused, 3)
        self._escaped = self._escape + literal
        self._separator = self._escape + separates
        self._any = special_tokens.any_pattern
        self._ids = {
            special_tokens.pattern(token): piece_id
            for token, piece_id in special_tokens.ids.items()
        }

    def split(self, texts: tf.Tensor) -> GraphParts:
        """Splits `[batch]` strings at special tokens."""
        texts = tf.strings.regex_replace(texts, self._escape, self._escaped)
        texts = tf.strings.regex_replace(
            texts, self._any, f"{self._separator}\\1{self._separator}"
        )
        parts = tf.strings.split(texts, self._separator)
        words = tf.strings.regex_replace(
            parts.values, self._escaped, self._escape
        )
        lengths = tf.cast(tf.strings.length(words, "BYTE"), tf.int64)
        offsets = tf.concat([[0], tf.cumsum(lengths)], 0)
        begins = tf.gather(
            offsets, tf.gather(parts.row_splits, parts.value_rowids())
        )

        ids = tf.fill(tf.shape(words), -1)
        for pattern, piece_id in self._ids.items():
            is_token = tf.strings.regex_full_match(words, pattern)
            ids = tf.where(is_token, piece_id, ids)
        # The reshape keeps a static batch size.
        num_parts = tf.reshape(parts.row_lengths(), tf.shape(texts))
        return GraphParts(
            row_splits=tf.concat([[0], tf.cumsum(num_parts)], 0),
            texts=tf.where(ids >= 0, "", words),
            starts=offsets[:-1] - begins,
            ends=offsets[1:] - begins,
            is_special=ids >= 0,
            special_ids=ids,
        )


class GraphSentencePiece(tf.Module):
    """An `AlbertTokenizer` for string tensors without special tokens."""

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__(name="sentencepiece")
        self._normalizer = GraphNormalizer(tokenizer.normalizer)
        self._sentencepiece = tf_text.SentencepieceTokenizer(
            model=tokenizer.processor_bytes, out_type=tf.int32
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
        """Returns ids, starts and ends in bytes, `[batch, (tokens)]`."""
        source = self._normalizer.align(texts)
        ids, begins, ends = self._sentencepiece.tokenize_with_offsets(
            source.texts
        )
        # Offsets in bytes of each text -> indices into all characters.
        begins = character_offsets(source.code_points, begins)
        ends = character_offsets(source.code_points, ends)
        begins, ends = self._digit_comma.split_offsets(ids, begins, ends)

        tokens = self._digit_comma.split(ids)
        text_of = tokens.value_rowids()
        # An empty token, from the space that SentencePiece adds, is at the
        # start of the next character, or at the end of the text.
        text_ends = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        is_past_text = begins == tf.gather(
            source.code_points.row_splits, text_of + 1
        )
        starts = tf.where(
            is_past_text,
            tf.gather(text_ends, text_of),
            _gather_within(source.starts, begins),
        )
        ends = tf.where(
            ends > begins, _gather_within(source.ends, ends - 1), starts
        )
        return tokens, tokens.with_values(starts), tokens.with_values(ends)


class _SharedModel(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model, shared within the process by its SHA-256.

    TensorFlow Text's own resource belongs to the operation that created it.
    `tf.random.set_seed` and `keras.utils.set_random_seed` clear the cache that
    holds this operation, after which its tokenizers fail.
    """

    def __init__(self, tokenizer: AlbertTokenizer):
        super().__init__()
        self._model = tokenizer.processor_bytes
        digest = hashlib.sha256(self._model).hexdigest()
        self._shared_name = f"sentencepiece-{digest}"
        self.resource_handle  # noqa: B018  Created eagerly, not in a graph.

    def _create_resource(self):
        operations = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
        return operations.sentencepiece_op(
            model=self._model, shared_name=self._shared_name
        )


def _gather_within(values: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
    """Gathers values after clipping the indices."""
    last = tf.size(values, tf.int64) - 1
    return tf.gather(values, tf.clip_by_value(indices, 0, last))
