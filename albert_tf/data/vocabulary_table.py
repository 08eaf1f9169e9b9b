"""What data creation needs to know of a vocabulary."""

from __future__ import annotations

import dataclasses
import string
from typing import TYPE_CHECKING

import numpy as np

from albert_tf.text.wordpiece import CONTINUATION
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

if TYPE_CHECKING:
    from albert_tf.text.base_tokenizer import Tokenizer

# In the original's table `€` and `£` stand too, but as bytes, which never match
# in Python 3. They are letters of no alphabet here and start a word anyway.
_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")
_INSIDE_WORDS = _PUNCTUATION | frozenset(string.ascii_letters)


@dataclasses.dataclass(frozen=True)
class VocabularyTable:
    """Special ids and the pieces that begin a word.

    Attributes:
      pad_id, cls_id, sep_id, mask_id: ids that no text is tokenized to.
      word_starts: bool `[vocab_size]`, whether a piece begins a word.
    """

    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    word_starts: np.ndarray

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> VocabularyTable:
        """Reads the table off a tokenizer."""
        pieces = [
            tokenizer.id_to_piece(index)
            for index in range(tokenizer.vocab_size)
        ]
        return cls(
            tokenizer.pad_id,
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
            word_starts(pieces, isinstance(tokenizer, WordPieceTokenizer)),
        )

    @property
    def text_ids(self) -> np.ndarray:
        """All ids that can occur in text, ascending."""
        special = [self.pad_id, self.cls_id, self.sep_id, self.mask_id]
        return np.setdiff1d(np.arange(len(self.word_starts)), special)


def word_starts(pieces: list[str], is_wordpiece: bool) -> np.ndarray:
    """Returns for each piece of a vocabulary whether it begins a word.

    Args:
      pieces: all pieces in the order of their ids.
      is_wordpiece: whether `##` marks what continues a word, as in WordPiece;
        else the rule is `starts_word`.

    Returns:
      Bool array, `[vocab_size]`.
    """
    if is_wordpiece:
        starts = [not piece.startswith(CONTINUATION) for piece in pieces]
    else:
        starts = [starts_word(piece) for piece in pieces]
    return np.array(starts)


def starts_word(piece: str) -> bool:
    """Says whether a SentencePiece piece begins a word, by the original's rule.

    A piece continues a word only when it has no space marker and consists of
    ASCII letters and punctuation, but is not a single punctuation mark. So
    digits, accented letters and letters of other alphabets begin a word.
    """
    return (
        piece.startswith(("▁", "<"))
        or piece in _PUNCTUATION
        or not _INSIDE_WORDS.issuperset(piece)
    )
