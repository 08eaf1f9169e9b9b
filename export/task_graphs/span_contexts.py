"""Contexts that answers are cut from, as tensors: pieces and characters."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.text.code_points import tabulate_numbers
from albert_tf.text.graph_lookup import CodePointLookup
from albert_tf.text.preprocessor import AlbertPreprocessor


class SpanContexts(NamedTuple):
    """Contexts in pieces, and where their text is.

    Places are int64 and count the characters of all contexts, laid end to end.

    Attributes:
      texts: strings `[contexts]`.
      ids: ragged int32 `[contexts, (pieces)]`.
      starts: `[all pieces]`: where the text of each begins.
      limits: `[all pieces]`: where it ends.
      solid_starts: `[all pieces]`: the first character from `starts` on that is
        no white space, even if it is beyond the piece.
      solid_limits: `[all pieces]`: behind the last one before `limits`.
      characters: ragged int32 `[contexts, (characters)]`, code points.
      borders: int64 `[all characters + 1]`: where each character begins, in
        bytes of all contexts, and at last where all end.
    """

    texts: tf.Tensor
    ids: tf.RaggedTensor
    starts: tf.Tensor
    limits: tf.Tensor
    solid_starts: tf.Tensor
    solid_limits: tf.Tensor
    characters: tf.RaggedTensor
    borders: tf.Tensor

    def strip(
        self, firsts: tf.Tensor, lasts: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the text of spans without white space around it.

        Args:
          firsts: int64 `[spans]`, the first piece of each, among all pieces.
          lasts: int64 `[spans]`, the last one.

        Returns:
          Where the text begins and ends; of white space alone, both are its
          end, as where `str.lstrip` leaves nothing.
        """
        # Marks that normal forms put in another order may go backwards.
        limits = tf.maximum(
            tf.gather(self.limits, lasts), tf.gather(self.starts, firsts)
        )
        begins = tf.minimum(tf.gather(self.solid_starts, firsts), limits)
        ends = tf.maximum(tf.gather(self.solid_limits, lasts), begins)
        return begins, ends

    def spell(self, begins: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns strings `[spans]` of the characters from places to places.

        From characters, not cut from `texts`: that would take a copy of a whole
        context for each span.
        """
        places = tf.ragged.range(begins, ends)
        return tf.strings.unicode_encode(
            places.with_values(
                tf.gather(self.characters.values, places.values)
            ),
            "UTF-8",
        )


class ContextReader:
    """Makes `SpanContexts` of strings.

    Args:
      preprocessor: of the model.
    """

    def __init__(self, preprocessor: AlbertPreprocessor):
        self._preprocessor = preprocessor
        # What `str.strip` removes.
        self._is_space = CodePointLookup(tabulate_numbers(str.isspace))

    def __call__(self, texts: tf.Tensor) -> SpanContexts:
        """Tokenizes strings `[contexts]`."""
        ids, starts, limits = self._preprocessor.tokenize_with_offsets(texts)
        characters, offsets = tf.strings.unicode_decode_with_offsets(
            texts, "UTF-8"
        )
        sizes = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        text_begins = tf.cumsum(sizes, exclusive=True)
        borders = tf.concat(
            [
                tf.gather(text_begins, offsets.value_rowids()) + offsets.values,
                tf.reduce_sum(sizes, keepdims=True),
            ],
            0,
        )

        # Byte of a context -> character of all.
        begin_of = tf.gather(text_begins, ids.value_rowids())
        starts, limits = (
            tf.searchsorted(borders, begin_of + x.values, out_type=tf.int64)
            for x in (starts, limits)
        )
        solid = tf.where(self._is_space(characters.values) == 0)[:, 0]
        end = tf.size(characters.values, tf.int64)
        return SpanContexts(
            texts=texts,
            ids=ids,
            starts=starts,
            limits=limits,
            solid_starts=tf.gather(
                tf.concat([solid, [end]], 0), tf.searchsorted(solid, starts)
            ),
            solid_limits=tf.gather(
                tf.concat([[0], solid + 1], 0), tf.searchsorted(solid, limits)
            ),
            characters=characters,
            borders=borders,
        )
