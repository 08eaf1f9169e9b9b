"""The normalizer as TensorFlow operations on code points.

TensorFlow's ICU implements another version of Unicode than Python, and defines
lower-casing and whitespace differently. To agree with Python, graphs therefore
look up code points in tables made from `unicodedata` and `str`.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text.code_points import (
    CASE_IGNORABLE,
    CASED,
    PAGE_BITS,
    ROWS,
    WHITESPACE,
    CodePointMap,
    Mappings,
    cases,
    lower_but_sigmas,
    tabulate,
)
from albert_tf.text.normalizer import (
    CAPITAL_SIGMA,
    FINAL_SIGMA,
    SMALL_SIGMA,
    Normalizer,
)


class CodePointLookup(tf.Module):
    """A `CodePointMap` as TensorFlow constants."""

    def __init__(self, code_point_map: CodePointMap):
        """Creates eager constants, which all traced functions share.

        They are on the CPU, where string operations run.
        """
        super().__init__()
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages = tf.constant(code_point_map.pages)
            self._entries = tf.constant(code_point_map.entries.reshape(-1))

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """Looks up int32 values for int32 code points of any shape."""
        page = tf.gather(self._pages, tf.bitwise.right_shift(values, PAGE_BITS))
        within = tf.bitwise.bitwise_and(values, (1 << PAGE_BITS) - 1)
        return tf.gather(
            self._entries, tf.bitwise.left_shift(page, PAGE_BITS) + within
        )


def mapping_rows(mappings: Mappings) -> tf.RaggedTensor:
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
    """Replaces some elements of a ragged tensor by rows of a table.

    Apart from copying, the cost is proportional to the number of replaced
    elements.

    Args:
      ragged: `[batch, (elements)]`.
      indices: int64 `[replaced]`, increasing indices into `ragged.values`.
      rows: `[rows, (elements)]`, the table; rows may be empty.
      row_ids: int64 `[replaced]`, the row that replaces each element.

    Returns:
      `[batch, (elements)]`.
    """
    # Append `ragged.values` to the table as further rows: alternately a run of
    # elements to keep and one element to replace.
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
    """Returns the number of elements that replace each element.

    For the arguments of `replace_elements`: int64 `[all elements]`, 1 for
    elements that are not replaced.
    """
    return tf.tensor_scatter_nd_update(
        tf.ones_like(ragged.values, tf.int64),
        indices[:, None],
        tf.gather(rows.row_lengths(), row_ids),
    )


def _interleave(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Returns first[0], second[0], first[1], second[1], ..."""
    return tf.reshape(tf.stack([first, second], axis=1), [-1])


class GraphSigmaLowerCaser(tf.Module):
    """Lower-cases capital sigmas by context, like `str.lower`."""

    def __init__(self):
        super().__init__(name="sigmas")
        self._case = CodePointLookup(cases())

    def __call__(self, texts: tf.RaggedTensor) -> tf.RaggedTensor:
        """Lower-cases sigmas in code points `[batch, (code points)]`."""
        sigma = texts.values == ord(CAPITAL_SIGMA)
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
        # Without the case-ignorable characters, the context of a sigma is its
        # two neighbors.
        visible = tf.where(case != CASE_IGNORABLE)[:, 0]
        cased = tf.gather(case, visible) == CASED
        text_of = tf.gather(texts.value_rowids(), visible)
        together = text_of[1:] == text_of[:-1]
        before = tf.concat([[False], cased[:-1] & together], 0)
        after = tf.concat([cased[1:] & together, [False]], 0)
        lowered = tf.where(before & ~after, ord(FINAL_SIGMA), ord(SMALL_SIGMA))
        values = tf.gather(texts.values, visible)
        return tf.tensor_scatter_nd_update(
            texts.values,
            visible[:, None],
            tf.where(tf.gather(sigma, visible), lowered, values),
        )


def character_offsets(
    texts: tf.RaggedTensor, offsets: tf.RaggedTensor
) -> tf.Tensor:
    """Converts byte offsets within texts to indices into all characters.

    Args:
      texts: ragged `[batch, (characters)]`, code points.
      offsets: ragged `[batch, (tokens)]`, in bytes of UTF-8.

    Returns:
      int64 `[all tokens]`, indices into `texts.values`.
    """
    lengths = tf.ones_like(texts.values, tf.int64)
    # The last code points that take 1, 2 and 3 bytes.
    for last in (0x7F, 0x7FF, 0xFFFF):
        lengths += tf.cast(texts.values > last, tf.int64)
    byte_offsets = tf.concat([[0], tf.cumsum(lengths)], 0)
    begin = tf.gather(byte_offsets, texts.row_starts())
    return tf.searchsorted(
        byte_offsets,
        tf.gather(begin, offsets.value_rowids()) + offsets.values,
        out_type=tf.int64,
    )


def source_ends(
    starts: tf.Tensor, texts: tf.Tensor, last_ends: tf.Tensor
) -> tf.Tensor:
    """Returns the ends of sources that end where the next one starts.

    Args:
      starts: int64 `[sources]`, offsets in their texts.
      texts: int64 `[sources]`, the text that each is in, ascending.
      last_ends: int64 `[sources]`, the end of each if it is the last of its
        text.
    """
    is_inner = tf.concat([texts, [-1]], 0)[1:] == texts
    return tf.where(is_inner, tf.roll(starts, -1, 0), last_ends)


class GraphAlignment(NamedTuple):
    """Normalized texts with offsets into the originals; see `Alignment`.

    Attributes:
      texts: tf.string `[batch]`, the normalized texts.
      code_points: ragged int32 `[batch, (characters)]`, their code points.
      starts, ends: int64 `[all characters]`, where the source of each character
        starts and ends in the original text, in bytes.
    """

    texts: tf.Tensor
    code_points: tf.RaggedTensor
    starts: tf.Tensor
    ends: tf.Tensor


class _Mappings(NamedTuple):
    """Replacements of decoded code points, for `replace_elements`.

    Attributes:
      singles: ragged int32 `[batch, (code points)]`, with the code points that
        are mapped to a single code point replaced already.
      replaced: int64 `[replaced]`, flat indices of the other code points.
      row_ids: int64 `[replaced]`, their rows in the table of replacements.
      nonspace: bool `[all code points]`, False for whitespace.
    """

    singles: tf.RaggedTensor
    replaced: tf.Tensor
    row_ids: tf.Tensor
    nonspace: tf.Tensor


@functools.cache
def _mappings(normalizer: Normalizer) -> Mappings:
    """Tabulates what a normalizer does to single characters."""

    def mapping(text: str) -> str:
        text = normalizer.fold(text)
        return lower_but_sigmas(text) if normalizer.do_lower_case else text

    return tabulate(mapping, str.isspace)


class GraphNormalizer(tf.Module):
    """A `Normalizer` for string tensors, with the same results.

    Each step processes the concatenated code points of the whole batch:
    whitespace is collapsed, code points are replaced according to a table made
    in Python, and capital sigmas are lower-cased by context.
    """

    def __init__(self, normalizer: Normalizer):
        """Creates the tables of `normalizer` from Python's Unicode data."""
        super().__init__(name="normalizer")
        mappings = _mappings(normalizer)
        self._replaces_quotes = normalizer.replace_latex_quotes
        self._mapping_of = CodePointLookup(mappings.mapping_of)
        self._rows = mapping_rows(mappings)
        self._lower_sigmas = (
            GraphSigmaLowerCaser() if normalizer.do_lower_case else None
        )

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

        # The last source ends after the last nonspace character of the text.
        lengths = replaced_lengths(
            decoded, mappings.replaced, self._rows, mappings.row_ids
        )
        kept = tf.where(lengths > 0)[:, 0]
        text_of = tf.gather(decoded.value_rowids(), kept)
        kept_starts = tf.gather(starts.values, kept)
        last_nonspace = _last_before(mappings.nonspace, decoded.row_splits[1:])
        rows = decoded.value_rowids()
        text_ends = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        ends = source_ends(starts.values, rows, tf.gather(text_ends, rows))
        mapped_ends = source_ends(
            kept_starts,
            text_of,
            tf.gather(ends, tf.gather(last_nonspace, text_of)),
        )
        repeats = tf.gather(lengths, kept)
        return GraphAlignment(
            tf.strings.unicode_encode(normalized, "UTF-8"),
            normalized,
            tf.repeat(kept_starts, repeats),
            tf.repeat(mapped_ends, repeats),
        )

    def _mappings_of(self, decoded: tf.RaggedTensor) -> _Mappings:
        """Collapses whitespace and looks up the replacements."""
        mapping_of = self._mapping_of(decoded.values)
        is_space = mapping_of == WHITESPACE
        nonspace = ~is_space
        # Keep the first character of each run of whitespace, which follows a
        # nonspace character, except at the end of the text.
        follows_nonspace = tf.tensor_scatter_nd_update(
            tf.concat([[False], nonspace], 0),
            tf.concat(
                [
                    decoded.row_starts(),
                    _last_before(nonspace, decoded.row_splits[1:]) + 1,
                ],
                0,
            )[:, None],
            tf.zeros([2 * decoded.nrows()], tf.bool),
        )[:-1]
        dropped = is_space & ~follows_nonspace
        singles = tf.where(is_space, ord(" "), decoded.values + mapping_of)
        if self._replaces_quotes:
            firsts = _latex_quotes(decoded)[:, None]
            marks = tf.fill([tf.size(firsts)], ord('"'))
            singles = tf.tensor_scatter_nd_update(singles, firsts, marks)
            seconds = tf.ones([tf.size(firsts)], tf.bool)
            dropped = tf.tensor_scatter_nd_update(dropped, firsts + 1, seconds)
        replaced = tf.where(dropped | (mapping_of >= ROWS))[:, 0]
        # Dropped code points, whose values are below ROWS, get the empty row 0.
        row_ids = tf.maximum(tf.gather(mapping_of, replaced) - ROWS, 0)
        return _Mappings(
            decoded.with_values(singles),
            replaced,
            tf.cast(row_ids, tf.int64),
            nonspace,
        )

    def _normalize(self, mappings: _Mappings) -> tf.RaggedTensor:
        """Applies the replacements: `[batch, (code points)]`."""
        texts = replace_elements(
            mappings.singles, mappings.replaced, self._rows, mappings.row_ids
        )
        return self._lower_sigmas(texts) if self._lower_sigmas else texts


def _latex_quotes(decoded: tf.RaggedTensor) -> tf.Tensor:
    """Returns the flat indices at which `` and '' start.

    Like `str.replace`, searches from left to right, without overlap.
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
    # In a run of equal quotes, every other one starts a pair if another one
    # follows it. `_last_before` finds the start of each run.
    begins_run = ~tf.concat([[False], continues], 0)[: tf.size(indices)]
    numbers = tf.range(tf.size(indices, tf.int64))
    within = numbers - _last_before(begins_run, numbers + 1)
    followed = tf.concat([continues, [False]], 0)[: tf.size(indices)]
    return tf.boolean_mask(indices, (within % 2 == 0) & followed)


def _last_before(flags: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns the index of the last set flag before each end, or -1."""
    indices = tf.where(flags)[:, 0]
    return tf.gather(
        tf.concat([[-1], indices], 0), tf.searchsorted(indices, ends)
    )
