"""Normalizer as TensorFlow operations on code points."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text import code_points
from albert_tf.text.normalizer import Normalizer


class CodePointLookup(tf.Module):
    """A `CodePointMap` as TensorFlow constants."""

    def __init__(self, code_point_map: code_points.CodePointMap):
        """Creates the constants on the CPU, where string operations run.

        They are eager, so that functions traced from one object share them.
        """
        super().__init__()
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages = tf.constant(code_point_map.pages)
            self._entries = tf.constant(code_point_map.entries.reshape(-1))

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """Returns int32 values for int32 code points of any shape."""
        page = tf.gather(
            self._pages, tf.bitwise.right_shift(values, code_points.PAGE_BITS)
        )
        within = tf.bitwise.bitwise_and(
            values, (1 << code_points.PAGE_BITS) - 1
        )
        return tf.gather(
            self._entries,
            tf.bitwise.left_shift(page, code_points.PAGE_BITS) + within,
        )


def mapping_rows(mappings: code_points.Mappings) -> tf.RaggedTensor:
    """Returns `mappings.rows` as eager constants."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.RaggedTensor.from_row_splits(
            tf.constant(
                np.array([ord(c) for c in "".join(mappings.rows)], np.int32)
            ),
            tf.constant(np.cumsum([0, *map(len, mappings.rows)]), tf.int64),
        )


def replace_elements(
    ragged: tf.RaggedTensor,
    indices: tf.Tensor,
    rows: tf.RaggedTensor,
    row_ids: tf.Tensor,
) -> tf.RaggedTensor:
    """Replaces some elements by rows of a table.

    Apart from copying, the cost grows with the number of replacements, not of
    elements.

    Args:
      ragged: `[batch, (elements)]`.
      indices: int64 `[replaced]`, increasing indices into `ragged.values`.
      rows: `[rows, (elements)]`, the table; rows may be empty.
      row_ids: int64 `[replaced]`, the row that replaces each element.

    Returns:
      `[batch, (elements)]`, `ragged` with the elements replaced.
    """
    # The table is extended by the elements: each replaced element and each run
    # between two of them is a row, in alternation.
    num_rows = rows.nrows()
    num_elements = tf.size(ragged.values, tf.int64)
    table = tf.RaggedTensor.from_row_splits(
        tf.concat([rows.values, ragged.values], 0),
        tf.concat(
            [
                rows.row_splits,
                rows.row_splits[-1] + _interleave(indices, indices + 1),
                rows.row_splits[-1:] + num_elements,
            ],
            0,
        ),
        validate=False,
    )
    runs = num_rows + 2 * tf.range(tf.size(indices, tf.int64) + 1)
    chosen = tf.concat([_interleave(runs[:-1], row_ids), runs[-1:]], 0)

    growth = tf.gather(rows.row_lengths(), row_ids) - 1
    shift = tf.concat([[0], tf.cumsum(growth)], 0)
    splits = ragged.row_splits + tf.gather(
        shift, tf.searchsorted(indices, ragged.row_splits)
    )
    return tf.RaggedTensor.from_row_splits(
        tf.gather(table, chosen).values, splits, validate=False
    )


def replaced_lengths(
    ragged: tf.RaggedTensor,
    indices: tf.Tensor,
    rows: tf.RaggedTensor,
    row_ids: tf.Tensor,
) -> tf.Tensor:
    """Returns how many elements `replace_elements` makes of each element.

    int64 `[all elements]`; 1 for elements that are not replaced.
    """
    return tf.tensor_scatter_nd_update(
        tf.ones_like(ragged.values, tf.int64),
        indices[:, None],
        tf.gather(rows.row_lengths(), row_ids),
    )


def _interleave(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Returns first[0], second[0], first[1], second[1], ..."""
    return tf.reshape(tf.stack([first, second], axis=1), [-1])


class GraphSigmas(tf.Module):
    """Lower-cases capital sigmas by their context, like `str.lower`."""

    def __init__(self):
        """Creates the table from Python's Unicode data."""
        super().__init__(name="sigmas")
        self._case = CodePointLookup(code_points.cases())

    def __call__(self, texts: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns `[batch, (code points)]` without capital sigmas."""
        sigma = texts.values == ord(code_points.CAPITAL_SIGMA)
        return texts.with_values(
            tf.cond(
                tf.reduce_any(sigma),
                lambda: self._with_small_sigmas(texts, sigma),
                lambda: texts.values,
            )
        )

    def _with_small_sigmas(
        self, texts: tf.RaggedTensor, sigma: tf.Tensor
    ) -> tf.Tensor:
        case = self._case(texts.values)
        # Case-ignorable characters are removed, so that the context of every
        # sigma is its two neighbors.
        visible = tf.where(case != code_points.CASE_IGNORABLE)[:, 0]
        cased = tf.gather(case, visible) == code_points.CASED
        text_of = tf.gather(texts.value_rowids(), visible)
        together = text_of[1:] == text_of[:-1]
        before = tf.concat([[False], cased[:-1] & together], 0)
        after = tf.concat([cased[1:] & together, [False]], 0)
        lowered = tf.where(
            before & ~after,
            ord(code_points.FINAL_SIGMA),
            ord(code_points.SMALL_SIGMA),
        )
        values = tf.gather(texts.values, visible)
        return tf.tensor_scatter_nd_update(
            texts.values,
            visible[:, None],
            tf.where(tf.gather(sigma, visible), lowered, values),
        )


def character_offsets(
    texts: tf.RaggedTensor, offsets: tf.RaggedTensor
) -> tf.Tensor:
    """Converts byte offsets in each text to indices into all characters.

    Args:
      texts: ragged `[batch, (characters)]`, code points.
      offsets: ragged `[batch, (tokens)]`, offsets in bytes of UTF-8.

    Returns:
      int64 `[all tokens]`, indices into `texts.values`.
    """
    lengths = tf.ones_like(texts.values, tf.int64)
    for last in (0x7F, 0x7FF, 0xFFFF):  # The last of 1, 2 and 3 bytes.
        lengths += tf.cast(texts.values > last, tf.int64)
    byte_offsets = tf.concat([[0], tf.cumsum(lengths)], 0)
    begin = tf.gather(byte_offsets, texts.row_starts())
    return tf.searchsorted(
        byte_offsets,
        tf.gather(begin, offsets.value_rowids()) + offsets.values,
        out_type=tf.int64,
    )


class GraphAlignment(NamedTuple):
    """Normalized texts with offsets into the originals.

    The counterpart of `Alignment`, in code points and bytes.

    Attributes:
      texts: tf.string `[batch]`, the normalized texts.
      code_points: ragged int32 `[batch, (characters)]`, their code points.
      starts: int64 `[all characters]`, start of the source of each character in
        the original text, in bytes.
      ends: int64 `[all characters]`, end of the source.
    """

    texts: tf.Tensor
    code_points: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor


class _Mappings(NamedTuple):
    """Mappings of decoded code points, as arguments of `replace_elements`.

    Attributes:
      singles: ragged int32 `[batch, (code points)]`, the mappings that are one
        code point.
      odd: int64 `[odd]`, indices of the code points with other mappings.
      odd_rows: int64 `[odd]`, their rows in the table of mappings.
      solid: bool `[all code points]`, which are not whitespace.
    """

    singles: tf.RaggedTensor
    odd: tf.Tensor
    odd_rows: tf.Tensor
    solid: tf.Tensor


class GraphNormalizer(tf.Module):
    """A `Normalizer` for tensors, with the same results.

    Every step works on the concatenated code points of the whole batch:
    whitespace is collapsed, each code point is replaced by its mapping (from a
    table made with Python), and capital sigmas are resolved by their context.
    """

    def __init__(self, normalizer: Normalizer):
        """Creates the tables of `normalizer` from Python's Unicode data."""
        super().__init__(name="normalizer")
        mappings = code_points.mappings(
            normalizer.do_lower_case,
            normalizer.strip_accents,
            normalizer.lower_characters_first,
        )
        self._replaces_quotes = normalizer.replace_latex_quotes
        self._mapping_of = CodePointLookup(mappings.mapping_of)
        self._rows = mapping_rows(mappings)
        self._lower_sigmas = GraphSigmas() if normalizer.do_lower_case else None

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes strings of any shape."""
        texts = tf.convert_to_tensor(texts, tf.string)
        decoded = tf.strings.unicode_decode(tf.reshape(texts, [-1]), "UTF-8")
        normalized = tf.strings.unicode_encode(
            self._normalize(self._mappings_of(decoded)), "UTF-8"
        )
        return tf.ensure_shape(
            tf.reshape(normalized, tf.shape(texts)), texts.shape
        )

    def align(self, texts: tf.Tensor) -> GraphAlignment:
        """Returns normalized `[batch]` strings with offsets."""
        decoded, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        mappings = self._mappings_of(decoded)
        normalized = self._normalize(mappings)

        # Sources are adjacent, so the source of a mapping ends where the next
        # one with a mapping starts, or after the last solid character.
        lengths = replaced_lengths(
            decoded, mappings.odd, self._rows, mappings.odd_rows
        )
        kept = tf.where(lengths > 0)[:, 0]
        text_of = tf.gather(decoded.value_rowids(), kept)
        last_solid = _last_before(mappings.solid, decoded.row_splits[1:])
        ends = _ends(starts, tf.strings.length(texts, "BYTE"))
        mapped_ends = tf.where(
            tf.concat([text_of, [-1]], 0)[1:] == text_of,
            tf.roll(tf.gather(starts.values, kept), -1, 0),
            tf.gather(ends, tf.gather(last_solid, text_of)),
        )
        repeats = tf.gather(lengths, kept)
        return GraphAlignment(
            tf.strings.unicode_encode(normalized, "UTF-8"),
            normalized,
            tf.repeat(tf.gather(starts.values, kept), repeats),
            tf.repeat(mapped_ends, repeats),
        )

    def _mappings_of(self, decoded: tf.RaggedTensor) -> _Mappings:
        """Collapses whitespace and looks up the mapping of each code point."""
        mapping_of = self._mapping_of(decoded.values)
        is_space = mapping_of == code_points.WHITESPACE
        solid = ~is_space
        # A run of whitespace is represented by its first character, the one
        # after a solid character, except at the end of the text.
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
        singles = tf.where(is_space, ord(" "), decoded.values + mapping_of)
        if self._replaces_quotes:
            firsts = _latex_quotes(decoded)[:, None]
            marks = tf.fill([tf.size(firsts)], ord('"'))
            singles = tf.tensor_scatter_nd_update(singles, firsts, marks)
            seconds = tf.ones([tf.size(firsts)], tf.bool)
            dropped = tf.tensor_scatter_nd_update(dropped, firsts + 1, seconds)
        odd = tf.where(dropped | (mapping_of >= code_points.ROWS))[:, 0]
        # Dropped code points have values below ROWS; they get the empty row 0.
        odd_rows = tf.maximum(tf.gather(mapping_of, odd) - code_points.ROWS, 0)
        return _Mappings(
            decoded.with_values(singles),
            odd,
            tf.cast(odd_rows, tf.int64),
            solid,
        )

    def _normalize(self, mappings: _Mappings) -> tf.RaggedTensor:
        """Returns the normalized code points `[batch, (code points)]`."""
        texts = replace_elements(
            mappings.singles, mappings.odd, self._rows, mappings.odd_rows
        )
        return self._lower_sigmas(texts) if self._lower_sigmas else texts


def _latex_quotes(decoded: tf.RaggedTensor) -> tf.Tensor:
    """Returns the flat indices of the first halves of `` and ''.

    Like `str.replace`, from left to right and without overlap.
    """
    is_quote = (decoded.values == ord("`")) | (decoded.values == ord("'"))
    indices = tf.where(is_quote)[:, 0]
    quotes = tf.gather(decoded.values, indices)
    texts = tf.gather(decoded.value_rowids(), indices)
    continues = (
        (indices[1:] == indices[:-1] + 1)
        & (quotes[1:] == quotes[:-1])
        & (texts[1:] == texts[:-1])
    )
    # In each run of equal quotes, every other one is a first half if another
    # follows it. `_last_before` finds the start of each run.
    begins_run = ~tf.concat([[False], continues], 0)[: tf.size(indices)]
    numbers = tf.range(tf.size(indices, tf.int64))
    within = numbers - _last_before(begins_run, numbers + 1)
    followed = tf.concat([continues, [False]], 0)[: tf.size(indices)]
    return tf.boolean_mask(indices, (within % 2 == 0) & followed)


def _ends(starts: tf.RaggedTensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the end of each decoded code point, flat, in bytes."""
    nonempty = tf.where(starts.row_lengths() > 0)[:, 0]
    return tf.tensor_scatter_nd_update(
        tf.roll(starts.values, -1, 0),
        (tf.gather(starts.row_splits, nonempty + 1) - 1)[:, None],
        tf.cast(tf.gather(lengths, nonempty), tf.int64),
    )


def _last_before(flags: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the index of the last set flag before each end, or -1."""
    indices = tf.where(flags)[:, 0]
    return tf.gather(
        tf.concat([[-1], indices], 0), tf.searchsorted(indices, ends)
    )
