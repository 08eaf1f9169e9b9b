"""The WordPiece tokenizer as TensorFlow operations."""

import dataclasses
import functools
import unicodedata
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.errors import InputError
from albert_tf.text.code_points import (
    ROWS,
    CodePointMap,
    Mappings,
    lower_but_sigmas,
    tabulate,
    tabulate_numbers,
)
from albert_tf.text.graph_normalizer import (
    CodePointLookup,
    GraphSigmaLowerCaser,
    character_offsets,
    mapping_rows,
    replace_elements,
    replaced_lengths,
    source_ends,
)
from albert_tf.text.word_splitter import (
    WordSplitter,
    is_ideograph,
    is_punctuation,
)
from albert_tf.text.wordpiece_tokenizer import (
    CONTINUATION,
    AlbertWordPieceTokenizer,
)

# Character properties: the combining class in the lower bits, and flags.
_COMBINING = 0xFF
_NONSPACING = 1 << 8
_OWN_WORD = 1 << 9  # The character is a word of its own.


class GraphWords(NamedTuple):
    """Words of texts, optionally with offsets into the originals.

    Attributes:
      characters: ragged int32 `[words, (characters)]`, code points.
      row_splits: int64 `[batch + 1]`, which words belong to each text.
      starts, ends: int64 `[all characters]`, where the source of each character
        starts and ends in the original text, in bytes; None without offsets.
    """

    characters: tf.RaggedTensor
    row_splits: tf.Tensor
    starts: tf.Tensor | None
    ends: tf.Tensor | None


class _Characters(NamedTuple):
    """The concatenated characters of all texts.

    Attributes:
      values: int32 `[characters]`, code points.
      texts: int64 `[characters]`, the text that each is in, ascending.
      sources: int64 `[characters]`, index of the decoded code point that each
        comes from.
    """

    values: tf.Tensor
    texts: tf.Tensor
    sources: tf.Tensor

    def gather(self, indices: tf.Tensor) -> "_Characters":
        return _Characters(*(tf.gather(field, indices) for field in self))


class GraphWordSplitter(tf.Module):
    """A `WordSplitter` for string tensors, with the same results.

    Code points are replaced according to a table made in Python. What depends
    on context (the order of combining marks, capital sigmas, word boundaries)
    is then computed for the whole batch. The only difference: TensorFlow 2.18
    treats the 66 noncharacters (such as U+FFFF) as U+FFFD.
    """

    def __init__(self, splitter: WordSplitter):
        """Creates the tables of `splitter` from Python's Unicode data.

        Raises:
          InputError: if the splitter applies NFC, which graphs do not.
        """
        super().__init__(name="word_splitter")
        if splitter.composes:
            raise InputError(
                "a WordPiece tokenizer with rules='hugging_face' that keeps "
                "accents composes text (NFC), which is not supported in "
                "graphs; tokenize in Python, or set rules='google' if all "
                "texts are composed"
            )
        self._strips_accents = splitter.strips_accents
        # Ideographs are words by a property instead of spaces.
        mappings = _mappings(
            dataclasses.replace(splitter, tokenize_chinese_chars=False)
        )
        self._mapping_of = CodePointLookup(mappings.mapping_of)
        self._rows = mapping_rows(mappings)
        self._properties = CodePointLookup(
            _properties(splitter.tokenize_chinese_chars)
        )
        self._lower_sigmas = (
            GraphSigmaLowerCaser() if splitter.do_lower_case else None
        )

    def __call__(self, texts: tf.Tensor) -> GraphWords:
        """Splits strings `[batch]` into words."""
        decoded = tf.strings.unicode_decode(texts, "UTF-8")
        return self._words(self._characters(decoded), decoded.nrows())[0]

    def align(self, texts: tf.Tensor) -> GraphWords:
        """Splits strings `[batch]` into words, with offsets."""
        decoded, starts = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        characters = self._characters(decoded)
        words, nonspace = self._words(characters, decoded.nrows())

        # Dropped sources belong to the one before them.
        num_sources = tf.size(starts.values, tf.int64)
        is_kept = tf.scatter_nd(
            characters.sources[:, None],
            tf.ones_like(characters.sources),
            [num_sources],
        )
        kept = tf.where(is_kept > 0)[:, 0]
        text_of = tf.gather(decoded.value_rowids(), kept)
        lengths = tf.cast(tf.strings.length(texts, "BYTE"), tf.int64)
        char_ends = source_ends(
            tf.gather(starts.values, kept), text_of, tf.gather(lengths, text_of)
        )
        char_ends = tf.scatter_nd(kept[:, None], char_ends, [num_sources])
        sources = tf.gather(characters.sources, nonspace)
        return words._replace(
            starts=tf.gather(starts.values, sources),
            ends=tf.gather(char_ends, sources),
        )

    def _characters(self, decoded: tf.RaggedTensor) -> _Characters:
        """Normalizes decoded texts."""
        mapping_of = self._mapping_of(decoded.values)
        replaced = tf.where(mapping_of >= ROWS)[:, 0]
        row_ids = tf.cast(tf.gather(mapping_of, replaced) - ROWS, tf.int64)
        singles = decoded.with_values(decoded.values + mapping_of)
        expanded = replace_elements(singles, replaced, self._rows, row_ids)
        lengths = replaced_lengths(decoded, replaced, self._rows, row_ids)
        characters = _Characters(
            expanded.values,
            expanded.value_rowids(),
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
        """Puts marks into canonical order and drops nonspacing ones."""
        properties = self._properties(characters.values)
        combining = tf.cast(properties & _COMBINING, tf.int64)
        # Marks after the same letter differ only in their combining class.
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
        """Returns words, and the indices of their characters, int64."""
        values, texts, _ = characters
        is_space = values == ord(" ")
        is_own_word = self._properties(values) & _OWN_WORD > 0
        ends_before = tf.concat([[True], (is_space | is_own_word)[:-1]], 0)
        is_first = tf.concat([[True], texts[1:] != texts[:-1]], 0)
        # The slice is for batches without characters.
        begins = is_own_word | (is_first | ends_before)[: tf.size(values)]
        nonspace = tf.where(~is_space)[:, 0]
        word_starts = tf.where(tf.gather(begins, nonspace))[:, 0]
        words = tf.RaggedTensor.from_row_starts(
            tf.gather(values, nonspace), word_starts, validate=False
        )
        text_of = tf.gather(tf.gather(texts, nonspace), word_starts)
        row_splits = tf.searchsorted(
            text_of, tf.range(num_texts + 1), out_type=tf.int64
        )
        return GraphWords(words, row_splits, None, None), nonspace


@functools.cache
def _mappings(splitter: WordSplitter) -> Mappings:
    """Tabulates what a splitter does to single characters before the split."""
    return tabulate(lambda text: splitter.fold(text, lower_but_sigmas))


@functools.cache
def _properties(spaces_ideographs: bool) -> CodePointMap:
    """Tabulates the properties of characters in normalized texts."""

    def properties(character: str) -> int:
        is_own_word = is_punctuation(character) or (
            # Only ideographs are mapped to ideographs.
            spaces_ideographs and is_ideograph(character)
        )
        is_nonspacing = unicodedata.category(character) == "Mn"
        return (
            unicodedata.combining(character)
            | _NONSPACING * is_nonspacing
            | _OWN_WORD * is_own_word
        )

    return tabulate_numbers(properties)


# In no vocabulary, since pieces are lines.
_UNKNOWN = "\n"
_UTF8_BYTES = 4  # maximum per character


class GraphWordPiece(tf.Module):
    """WordPiece tokenization of string tensors without special tokens."""

    def __init__(self, tokenizer: AlbertWordPieceTokenizer):
        """Creates the lookup table of the vocabulary.

        Raises:
          InputError: see `GraphWordSplitter`.
        """
        super().__init__(name="wordpiece")
        self._splitter = GraphWordSplitter(tokenizer.normalizer)
        self._max_characters = tokenizer.max_characters_per_word
        ids = tokenizer.get_vocab()
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
            # Never reached: `_encode` limits the length in characters.
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
        """Returns ids, starts and ends in bytes, `[batch, (tokens)]`."""
        words = self._splitter.align(texts)
        encoded = self._encode(words)
        ids, begins, ends = self._wordpiece.tokenize_with_offsets(encoded)
        # A word that is too long is a single token.
        word_ends = words.characters.row_limits()
        is_replaced = tf.gather(encoded == _UNKNOWN, ids.value_rowids())
        first = character_offsets(words.characters, begins)
        last = tf.where(
            is_replaced,
            tf.gather(word_ends, ids.value_rowids()),
            character_offsets(words.characters, ends),
        )
        ids = _of_texts(words, ids)
        return (
            ids,
            ids.with_values(tf.gather(words.starts, first)),
            ids.with_values(tf.gather(words.ends, last - 1)),
        )

    def _encode(self, words: GraphWords) -> tf.Tensor:
        """Returns strings `[words]`, `_UNKNOWN` for words that are too long."""
        return tf.where(
            words.characters.row_lengths() > self._max_characters,
            _UNKNOWN,
            tf.strings.unicode_encode(words.characters, "UTF-8"),
        )


def _of_texts(words: GraphWords, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Reshapes `[words, (pieces)]` to `[batch, (pieces)]`."""
    return tf.RaggedTensor.from_row_splits(
        pieces.values,
        tf.gather(pieces.row_splits, words.row_splits),
        validate=False,
    )
