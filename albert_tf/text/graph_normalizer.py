"""The normalizer as TensorFlow operations on code points."""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.text import code_points
from albert_tf.text.graph_lookup import CodePointLookup, image_rows
from albert_tf.text.graph_replace import replace_elements, replaced_lengths
from albert_tf.text.graph_sigmas import GraphSigmas
from albert_tf.text.normalizer import Normalizer


class GraphAlignment(NamedTuple):
    """Normalized texts, and where each of their code points comes from.

    The counterpart of `Alignment`, in code points and bytes.

    Attributes:
      texts: tf.string `[batch]`, normalized.
      code_points: ragged int32 `[batch, (characters)]`, the same, decoded.
      starts: int64 `[all characters]`, flat: where a character's source begins
        in the original text, in bytes.
      limits: int64 `[all characters]`: where it ends.
    """

    texts: tf.Tensor
    code_points: tf.RaggedTensor
    starts: tf.Tensor
    limits: tf.Tensor


class _Images(NamedTuple):
    """What becomes of decoded code points, as `replace_elements` takes it.

    Attributes:
      singles: ragged int32 `[batch, (code points)]`, the image of each, where
        it is one code point.
      odd: int64 `[odd ones]`, the others' places.
      odd_rows: int64 `[odd ones]`, their rows in the table of images.
      solid: bool `[all code points]`, which are not whitespace.
    """

    singles: tf.RaggedTensor
    odd: tf.Tensor
    odd_rows: tf.Tensor
    solid: tf.Tensor


class GraphNormalizer(tf.Module):
    """A `Normalizer` for tensors: the same string for every string.

    Every step works on the code points of the whole batch, laid end to end:
    whitespace is filtered, each code point is replaced by its image (a table
    made from Python's), and the rare capital sigma is resolved by its context.
    """

    def __init__(self, normalizer: Normalizer):
        """Bakes the tables of `normalizer` for this Python's Unicode."""
        super().__init__(name="normalizer")
        images = code_points.images(
            normalizer.do_lower_case,
            normalizer.strip_accents,
            normalizer.lower_characters_first,
        )
        self._replaces_quotes = normalizer.replace_latex_quotes
        self._image_of = CodePointLookup(images.image_of)
        self._rows = image_rows(images)
        self._lower_sigmas = GraphSigmas() if normalizer.do_lower_case else None

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes strings of any shape."""
        texts = tf.convert_to_tensor(texts, tf.string)
        decoded = tf.strings.unicode_decode(tf.reshape(texts, [-1]), "UTF-8")
        normalized = tf.strings.unicode_encode(
            self._normalize(self._images_of(decoded)), "UTF-8"
        )
        return tf.ensure_shape(
            tf.reshape(normalized, tf.shape(texts)), texts.shape
        )

    def align(self, texts: tf.Tensor) -> GraphAlignment:
        """Normalizes `[batch]` strings and keeps track of the sources."""
        decoded, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        images = self._images_of(decoded)
        normalized = self._normalize(images)

        # Sources lie side by side. So the source of an image reaches to the
        # next one with an image, or to the last solid character of the text.
        lengths = replaced_lengths(
            decoded, images.odd, self._rows, images.odd_rows
        )
        kept = tf.where(lengths > 0)[:, 0]
        text_of = tf.gather(decoded.value_rowids(), kept)
        last_solid = _last_before(images.solid, decoded.row_splits[1:])
        ends = _ends(starts, tf.strings.length(texts, "BYTE"))
        limits = tf.where(
            tf.concat([text_of, [-1]], 0)[1:] == text_of,
            tf.roll(tf.gather(starts.values, kept), -1, 0),
            tf.gather(ends, tf.gather(last_solid, text_of)),
        )
        repeats = tf.gather(lengths, kept)
        return GraphAlignment(
            tf.strings.unicode_encode(normalized, "UTF-8"),
            normalized,
            tf.repeat(tf.gather(starts.values, kept), repeats),
            tf.repeat(limits, repeats),
        )

    def _images_of(self, decoded: tf.RaggedTensor) -> _Images:
        """Collapses whitespace and looks up the image of each code point."""
        image_of = self._image_of(decoded.values)
        is_space = image_of == code_points.WHITESPACE
        solid = ~is_space
        # A run of whitespace stays as its first character, which follows a
        # solid one, unless that is the last solid one of the text.
        follows_solid = tf.tensor_scatter_nd_update(
            tf.concat([[False], solid], 0),
            tf.concat(
                [
                    decoded.row_starts(),
                    _last_before(solid, decoded.row_splits[1:]) + 1,
                ],
                0,
            )[:, None],
            tf.zeros([2 * decoded.nrows()], tf.bool),
        )[:-1]
        dropped = is_space & ~follows_solid
        singles = tf.where(is_space, ord(" "), decoded.values + image_of)
        if self._replaces_quotes:
            firsts = _latex_quotes(decoded)[:, None]
            marks = tf.fill([tf.size(firsts)], ord('"'))
            singles = tf.tensor_scatter_nd_update(singles, firsts, marks)
            seconds = tf.ones([tf.size(firsts)], tf.bool)
            dropped = tf.tensor_scatter_nd_update(dropped, firsts + 1, seconds)
        odd = tf.where(dropped | (image_of >= code_points.ROWS))[:, 0]
        # What is dropped has a value below ROWS, and gets the empty row 0.
        odd_rows = tf.maximum(tf.gather(image_of, odd) - code_points.ROWS, 0)
        return _Images(
            decoded.with_values(singles),
            odd,
            tf.cast(odd_rows, tf.int64),
            solid,
        )

    def _normalize(self, images: _Images) -> tf.RaggedTensor:
        """Returns the normalized code points `[batch, (code points)]`."""
        texts = replace_elements(
            images.singles, images.odd, self._rows, images.odd_rows
        )
        return self._lower_sigmas(texts) if self._lower_sigmas else texts


def _latex_quotes(decoded: tf.RaggedTensor) -> tf.Tensor:
    """Returns the flat places of the first halves of `` and ''.

    As `str.replace` finds them: from left to right, without overlap.
    """
    is_quote = (decoded.values == ord("`")) | (decoded.values == ord("'"))
    places = tf.where(is_quote)[:, 0]
    quotes = tf.gather(decoded.values, places)
    texts = tf.gather(decoded.value_rowids(), places)
    continues = (
        (places[1:] == places[:-1] + 1)
        & (quotes[1:] == quotes[:-1])
        & (texts[1:] == texts[:-1])
    )
    # In each run of equal quotes, every other one is a first half, if another
    # follows it. `_last_before` finds where the run of each one begins.
    begins_run = ~tf.concat([[False], continues], 0)[: tf.size(places)]
    indices = tf.range(tf.size(places, tf.int64))
    within = indices - _last_before(begins_run, indices + 1)
    followed = tf.concat([continues, [False]], 0)[: tf.size(places)]
    return tf.boolean_mask(places, (within % 2 == 0) & followed)


def _ends(starts: tf.RaggedTensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns where each decoded code point ends, flat, in bytes."""
    nonempty = tf.where(starts.row_lengths() > 0)[:, 0]
    return tf.tensor_scatter_nd_update(
        tf.roll(starts.values, -1, 0),
        (tf.gather(starts.row_splits, nonempty + 1) - 1)[:, None],
        tf.cast(tf.gather(lengths, nonempty), tf.int64),
    )


def _last_before(flags: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """Returns the index of the last set flag before each limit, or -1."""
    indices = tf.where(flags)[:, 0]
    return tf.gather(
        tf.concat([[-1], indices], 0), tf.searchsorted(indices, limits)
    )
