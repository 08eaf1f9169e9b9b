"""`WordSplitter` as TensorFlow operations on code points."""

import functools
import unicodedata
from typing import NamedTuple

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.text import code_points
from albert_tf.text.graph_lookup import CodePointLookup, image_rows
from albert_tf.text.graph_replace import replace_elements, replaced_lengths
from albert_tf.text.graph_sigmas import GraphSigmas
from albert_tf.text.word_splitter import (
    WordRules,
    WordSplitter,
    clean,
    is_ideograph,
    is_punctuation,
)

# What the table of properties says of a code point: its combining class in the
# lower bits, and these.
_COMBINING = 0xFF
_NONSPACING = 1 << 8
_ALONE = 1 << 9  # It is a word of its own.


class GraphWords(NamedTuple):
    """The words of texts, and where their characters come from.

    Attributes:
      characters: ragged int32 `[words, (characters)]`, code points.
      row_splits: int64 `[batch + 1]`, which words are those of each text.
      starts: int64 `[all characters]`, flat: where a character's source begins
        in the original text, in bytes; None if that was not asked for.
      limits: int64 `[all characters]`: where it ends.
    """

    characters: tf.RaggedTensor
    row_splits: tf.Tensor
    starts: tf.Tensor | None
    limits: tf.Tensor | None


class _Characters(NamedTuple):
    """Code points of all texts, laid end to end.

    Attributes:
      values: int32 `[characters]`.
      texts: int64 `[characters]`, the text of each, ascending.
      sources: int64 `[characters]`, the decoded code point that it comes from.
    """

    values: tf.Tensor
    texts: tf.Tensor
    sources: tf.Tensor

    def gather(self, indices: tf.Tensor) -> "_Characters":
        return _Characters(*(tf.gather(field, indices) for field in self))


class GraphWordSplitter(tf.Module):
    """A `WordSplitter` for tensors: the same words for every string.

    Every code point is replaced by its image (a table made from Python's), and
    what depends on neighbours is done for the whole batch at once: the order of
    marks, capital sigmas, the borders of words. Only the 66 noncharacters (such
    as U+FFFF) count as U+FFFD under TensorFlow 2.18.
    """

    def __init__(self, splitter: WordSplitter):
        """Bakes the tables of `splitter` for this Python's Unicode.

        Raises:
          InputError: it composes text.
        """
        super().__init__(name="word_splitter")
        if splitter.composes:
            raise InputError(
                "a WordPiece tokenizer with rules='hugging_face' that keeps "
                "accents composes text (NFC), which a graph cannot; tokenize "
                "in Python, or set rules='google' if all texts are composed"
            )
        self._strips_accents = splitter.strips_accents
        images = _images(
            splitter.do_lower_case,
            splitter.strips_accents,
            splitter.rules,
        )
        self._image_of = CodePointLookup(images.image_of)
        self._rows = image_rows(images)
        self._properties = CodePointLookup(
            _properties(splitter.tokenize_chinese_chars)
        )
        self._lower_sigmas = GraphSigmas() if splitter.do_lower_case else None

    def __call__(self, texts: tf.Tensor) -> GraphWords:
        """Returns the words of `[batch]` strings."""
        decoded = tf.strings.unicode_decode(texts, "UTF-8")
        return self._words(self._characters(decoded), decoded.nrows())[0]

    def align(self, texts: tf.Tensor) -> GraphWords:
        """Returns the words of `[batch]` strings, and where they come from."""
        decoded, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        characters = self._characters(decoded)
        words, solid = self._words(characters, decoded.nrows())

        # Sources lie side by side. So a source, with what is dropped after it,
        # reaches to the next one that is kept, or to the end of the text.
        num_sources = tf.size(starts.values, tf.int64)
        is_kept = tf.scatter_nd(
            characters.sources[:, None],
            tf.ones_like(characters.sources),
            [num_sources],
        )
        kept = tf.where(is_kept > 0)[:, 0]
        text_of = tf.gather(decoded.value_rowids(), kept)
        lengths = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        limits = tf.where(
            tf.concat([text_of, [-1]], 0)[1:] == text_of,
            tf.roll(tf.gather(starts.values, kept), -1, 0),
            tf.gather(lengths, text_of),
        )
        limits = tf.scatter_nd(kept[:, None], limits, [num_sources])
        sources = tf.gather(characters.sources, solid)
        return words._replace(
            starts=tf.gather(starts.values, sources),
            limits=tf.gather(limits, sources),
        )

    def _characters(self, decoded: tf.RaggedTensor) -> _Characters:
        """Returns the characters of normalized texts."""
        image_of = self._image_of(decoded.values)
        odd = tf.where(image_of >= code_points.ROWS)[:, 0]
        odd_rows = tf.cast(
            tf.gather(image_of, odd) - code_points.ROWS, tf.int64
        )
        singles = decoded.with_values(decoded.values + image_of)
        replaced = replace_elements(singles, odd, self._rows, odd_rows)
        lengths = replaced_lengths(decoded, odd, self._rows, odd_rows)
        characters = _Characters(
            replaced.values,
            replaced.value_rowids(),
            tf.repeat(tf.range(tf.size(lengths, tf.int64)), lengths),
        )
        if self._strips_accents:
            characters = self._without_marks(characters)
        if self._lower_sigmas:
            texts = tf.RaggedTensor.from_value_rowids(
                characters.values,
                characters.texts,
                nrows=decoded.nrows(),
                validate=False,
            )
            lowered = self._lower_sigmas(texts).values
            characters = characters._replace(values=lowered)
        return characters

    def _without_marks(self, characters: _Characters) -> _Characters:
        """Puts marks in their normal order, and drops nonspacing ones."""
        properties = self._properties(characters.values)
        combining = tf.cast(properties & _COMBINING, tf.int64)
        # The marks after a letter have the same key but for their class.
        letters = tf.cumsum(tf.cast(combining == 0, tf.int64))
        keys = (letters + characters.texts) * (_COMBINING + 1) + combining
        order = tf.cond(
            tf.reduce_any(keys[1:] < keys[:-1]),
            lambda: tf.argsort(keys, stable=True),
            lambda: tf.range(tf.size(keys)),
        )
        properties = tf.gather(properties, order)
        return characters.gather(
            tf.boolean_mask(order, properties & _NONSPACING == 0)
        )

    def _words(
        self, characters: _Characters, num_texts: tf.Tensor
    ) -> tuple[GraphWords, tf.Tensor]:
        """Cuts texts; returns also which characters are in words, int64."""
        values, texts, _ = characters
        is_blank = values == ord(" ")
        is_alone = self._properties(values) & _ALONE > 0
        ends_before = tf.concat([[True], (is_blank | is_alone)[:-1]], 0)
        is_first = tf.concat([[True], texts[1:] != texts[:-1]], 0)
        # Without a character there is none of these either.
        begins = is_alone | (is_first | ends_before)[: tf.size(values)]
        solid = tf.where(~is_blank)[:, 0]
        word_starts = tf.where(tf.gather(begins, solid))[:, 0]
        words = tf.RaggedTensor.from_row_starts(
            tf.gather(values, solid), word_starts, validate=False
        )
        text_of = tf.gather(tf.gather(texts, solid), word_starts)
        row_splits = tf.searchsorted(
            text_of, tf.range(num_texts + 1), out_type=tf.int64
        )
        return GraphWords(words, row_splits, None, None), solid


@functools.cache
def _images(
    do_lower_case: bool, strips_accents: bool, rules: WordRules
) -> code_points.Images:
    """Tabulates what becomes of a character, but for the context."""

    def image(text: str) -> str:
        if do_lower_case and rules == "hugging_face":
            text = code_points.lower_characters(text)
        text = clean(text, rules)
        if do_lower_case:
            # A capital sigma stays: it alone is lower-cased by its context.
            sigma = code_points.CAPITAL_SIGMA
            text = sigma.join(part.lower() for part in text.split(sigma))
        return unicodedata.normalize("NFD", text) if strips_accents else text

    return code_points.tabulate(image)


@functools.cache
def _properties(spaces_ideographs: bool) -> code_points.CodePointMap:
    """Tabulates what must be known of a character of a normalized text."""

    def properties(character: str) -> int:
        is_alone = is_punctuation(character) or (
            # An ideograph has one for its image, and nothing else has.
            spaces_ideographs and is_ideograph(character)
        )
        is_nonspacing = unicodedata.category(character) == "Mn"
        return (
            unicodedata.combining(character)
            | _NONSPACING * is_nonspacing
            | _ALONE * is_alone
        )

    return code_points.tabulate_numbers(properties)
