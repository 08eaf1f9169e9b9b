"""Token ids of documents in one array, and the word starts of a vocabulary."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import string
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from albert_tf.text.word_splitter import UNSPACED_SCRIPTS
from albert_tf.text.wordpiece_tokenizer import (
    CONTINUATION,
    AlbertWordPieceTokenizer,
)

if TYPE_CHECKING:
    from albert_tf.data.data_config import WordStarts
    from albert_tf.text.base_tokenizer import Tokenizer

# The original's table also has `€` and `£`, but as bytes, which never match in
# Python 3. They start a word anyway, as they are not ASCII.
_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")
_INSIDE_WORDS = _PUNCTUATION | frozenset(string.ascii_letters)

# First words of the Unicode names of letters of scripts that have no spaces
# between words.
_UNSPACED = (
    *UNSPACED_SCRIPTS,
    *("CJK ", "IDEOGRAPHIC ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA "),
    *("BOPOMOFO ", "YI ", "TIBETAN ", "TAI ", "NEW TAI LUE ", "JAVANESE "),
    "BALINESE ",
)
# They shape letters within words, such as those of Hindi and Persian.
_JOINERS = "\u200c\u200d"

# Characters that are tokenized at a time, because the tokenizer returns lists
# of integers, which take many times the memory of arrays.
_BATCH_CHARACTERS = 1 << 18


@dataclasses.dataclass(frozen=True)
class VocabularyTable:
    """Special ids of a vocabulary, and its pieces that start a word.

    Attributes:
      pad_id, cls_id, sep_id, mask_id: ids that do not occur in text.
      word_starts: bool `[vocab_size]`, whether a piece starts a word.
    """

    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    word_starts: np.ndarray

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Tokenizer, word_starts: WordStarts = "google"
    ) -> VocabularyTable:
        """Returns the table of a tokenizer; see `starts_word`."""
        pieces = map(tokenizer.id_to_piece, range(tokenizer.vocab_size))
        if isinstance(tokenizer, AlbertWordPieceTokenizer):
            starts = [not piece.startswith(CONTINUATION) for piece in pieces]
        else:
            starts = [starts_word(piece, word_starts) for piece in pieces]
        return cls(
            tokenizer.pad_id,
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
            np.array(starts),
        )

    @functools.cached_property
    def text_ids(self) -> np.ndarray:
        """All ids that can occur in text, int32, in ascending order."""
        special = [self.pad_id, self.cls_id, self.sep_id, self.mask_id]
        ids = np.arange(len(self.word_starts), dtype=np.int32)
        return np.setdiff1d(ids, special)


def starts_word(piece: str, word_starts: WordStarts = "google") -> bool:
    """Returns whether a SentencePiece piece starts a word.

    Args:
      piece: the piece.
      word_starts: "google": as in the original, a piece continues a word only
        if it has no space marker and consists of ASCII letters and punctuation,
        but is not a single punctuation mark. So digits, accented letters and
        letters of other alphabets start a word. "spaces": such letters continue
        a word, too, except those of scripts without spaces between words.
    """
    if piece.startswith(("▁", "<")) or piece in _PUNCTUATION:
        return True
    others = set(piece) - _INSIDE_WORDS
    if word_starts == "spaces":
        return not all(map(_is_spaced_letter, others))
    return bool(others)


def _is_spaced_letter(character: str) -> bool:
    """Returns whether a script with spaces has a character inside words."""
    if character in _JOINERS:
        return True
    is_letter = unicodedata.category(character)[0] in "LM"
    name = unicodedata.name(character, "")
    return is_letter and not name.startswith(_UNSPACED)


@dataclasses.dataclass(frozen=True)
class TokenizedDocuments:
    """Concatenated token ids of documents, with the offsets of sentences.

    Attributes:
      tokens: int32 `[tokens]`, ids of all documents without special tokens.
      sentence_starts: int64 `[sentences + 1]`, offsets into `tokens`; the last
        entry is their number.
      document_starts: int64 `[documents + 1]`, offsets into the sentences; the
        last entry is their number.
      first_number: number of the first document within the data set.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray
    first_number: int = 0

    @classmethod
    def from_text(
        cls,
        documents: Sequence[Sequence[str]],
        tokenizer: Tokenizer,
        first_number: int = 0,
    ) -> TokenizedDocuments:
        """Tokenizes documents, without sentences that have no token."""
        sentences = [
            sentence for document in documents for sentence in document
        ]
        tokens, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for batch in _batch_sentences(sentences):
            ids = tokenizer.encode(batch, num_threads=1)
            lengths.append(np.array([len(x) for x in ids], np.int64))
            tokens.append(
                np.fromiter(
                    itertools.chain.from_iterable(ids),
                    np.int32,
                    lengths[-1].sum(),
                )
            )
        # Document boundaries as offsets into the sentences that are kept.
        boundaries = np.cumsum([0] + [len(document) for document in documents])
        sizes = np.concatenate(lengths)
        kept_before = np.pad(np.cumsum(sizes > 0), (1, 0))
        return cls(
            np.concatenate(tokens),
            np.pad(np.cumsum(sizes[sizes > 0]), (1, 0)),
            np.unique(kept_before[boundaries]),
            first_number,
        )

    @property
    def document_offsets(self) -> np.ndarray:
        """Offsets of the documents into `tokens`, and the number of tokens."""
        return self.sentence_starts[self.document_starts]

    @property
    def num_documents(self) -> int:
        """Number of documents with a token."""
        return len(self.document_starts) - 1

    @property
    def num_sentences(self) -> int:
        """Number of sentences with a token."""
        return len(self.sentence_starts) - 1


def _batch_sentences(sentences: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields slices of about `_BATCH_CHARACTERS` each."""
    first = characters = 0
    for index, sentence in enumerate(sentences, 1):
        characters += len(sentence)
        if characters >= _BATCH_CHARACTERS or index == len(sentences):
            yield sentences[first:index]
            first, characters = index, 0
