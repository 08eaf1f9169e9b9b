"""Token ids of documents in one array, and the word starts of a vocabulary."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import string
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from albert_tf.text.wordpiece_tokenizer import CONTINUATION, WordPieceTokenizer

if TYPE_CHECKING:
    from albert_tf.text.base_tokenizer import Tokenizer

# In the original's table `€` and `£` stand too, but as bytes, which never match
# in Python 3. They are letters of no alphabet here and start a word anyway.
_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")
_INSIDE_WORDS = _PUNCTUATION | frozenset(string.ascii_letters)

# Tokenized at a time: lists of integers take many times the memory of arrays.
_CHARACTERS = 1 << 18


@dataclasses.dataclass(frozen=True)
class VocabularyTable:
    """Special ids of a vocabulary and the pieces that begin a word.

    Attributes:
      pad_id, cls_id, sep_id, mask_id: ids that text is never tokenized to.
      word_starts: bool `[vocab_size]`, whether a piece begins a word.
    """

    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    word_starts: np.ndarray

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> VocabularyTable:
        """Returns the table of a tokenizer."""
        pieces = [
            tokenizer.id_to_piece(index)
            for index in range(tokenizer.vocab_size)
        ]
        if isinstance(tokenizer, WordPieceTokenizer):
            starts = [not piece.startswith(CONTINUATION) for piece in pieces]
        else:
            starts = [starts_word(piece) for piece in pieces]
        return cls(
            tokenizer.pad_id,
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
            np.array(starts),
        )

    @functools.cached_property
    def text_ids(self) -> np.ndarray:
        """All ids that can occur in text, ascending."""
        special = [self.pad_id, self.cls_id, self.sep_id, self.mask_id]
        return np.setdiff1d(np.arange(len(self.word_starts)), special)


def starts_word(piece: str) -> bool:
    """Returns whether a SentencePiece piece begins a word.

    The rule is the original's.

    A piece continues a word only when it has no space marker and consists of
    ASCII letters and punctuation, but is not a single punctuation mark. So
    digits, accented letters and letters of other alphabets begin a word.
    """
    return (
        piece.startswith(("▁", "<"))
        or piece in _PUNCTUATION
        or not _INSIDE_WORDS.issuperset(piece)
    )


@dataclasses.dataclass(frozen=True)
class TokenizedDocuments:
    """Token ids of documents, end to end, with the starts of sentences.

    Attributes:
      tokens: int32 `[tokens]`, all documents' ids without special tokens.
      sentence_starts: int64 `[sentences + 1]`, offsets into `tokens`; the last
        entry is their number.
      document_starts: int64 `[documents + 1]`, offsets into the sentences.
      first_number: number of the first document among all of a data set.
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
        """Tokenizes sentences, document by document.

        Sentences and documents without a token are skipped.
        """
        sentences = [
            sentence for document in documents for sentence in document
        ]
        tokens, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for part in _parts(sentences):
            ids = tokenizer.encode(part, num_threads=1)
            lengths.append(np.array([len(x) for x in ids], np.int64))
            tokens.append(
                np.fromiter(
                    itertools.chain.from_iterable(ids),
                    np.int32,
                    lengths[-1].sum(),
                )
            )
        # Document boundaries, counted in the sentences that are kept.
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
    def num_documents(self) -> int:
        """Number of documents that hold a token."""
        return len(self.document_starts) - 1

    @property
    def num_sentences(self) -> int:
        """Number of sentences that hold a token."""
        return len(self.sentence_starts) - 1


def _parts(sentences: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields slices of sentences with about as many characters each."""
    first = characters = 0
    for index, sentence in enumerate(sentences, 1):
        characters += len(sentence)
        if characters >= _CHARACTERS or index == len(sentences):
            yield sentences[first:index]
            first, characters = index, 0
