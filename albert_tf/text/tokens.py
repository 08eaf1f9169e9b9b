"""Tokens, special tokens in a text, such as `[MASK]`, and segments of it."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Token(NamedTuple):
    """A token of a text.

    Attributes:
      piece: the piece: with `▁` at the start of a word, or in WordPiece with
        `##` inside a word. For unknown text, SentencePiece has the text itself
        and WordPiece `[UNK]`.
      id: id of the piece.
      start: start offset in the original text, in characters. A piece with `▁`
        starts at the blank before the word.
      end: end offset.
    """

    piece: str
    id: int
    start: int
    end: int


class TextPart(NamedTuple):
    """A special token in a text, or the text between two of them.

    Attributes:
      text: the text as it was written.
      start: start offset, in characters.
      id: id of the special token, or None.
    """

    text: str
    start: int
    id: int | None


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Splits texts at special tokens, as Hugging Face's tokenizers do.

    Tokens are matched exactly, the longest first. With
    `lower_characters_first`, tokens without capitals are matched in any case,
    such as `<PAD>` for `<pad>`.

    Attributes:
      ids: token -> id, of special tokens and other tokens to split at.
      lower_characters_first: whether the text is lower-cased before the search,
        except for special tokens with capitals.
    """

    ids: Mapping[str, int]
    lower_characters_first: bool = False

    def pattern(self, token: str) -> str:
        """Returns the pattern of a token, for both `re` and RE2."""
        spelling = re.escape(token)
        any_case = self.lower_characters_first and token == token.lower()
        return f"(?i:{spelling})" if any_case else spelling

    @functools.cached_property
    def any_pattern(self) -> str:
        """Pattern of all tokens, as one group."""
        longest_first = sorted(self.ids, key=len, reverse=True)
        return f"({'|'.join(map(self.pattern, longest_first))})"

    def split(self, text: str) -> Iterator[TextPart]:
        """Yields the special tokens of a text and the texts between them."""
        start = 0
        # `re` caches compiled patterns.
        for match in re.finditer(self.any_pattern, text) if self.ids else ():
            token = match.group()
            if match.start() > start:
                yield TextPart(text[start : match.start()], start, None)
            special = self.ids.get(token)
            special = self.ids[token.lower()] if special is None else special
            yield TextPart(token, match.start(), special)
            start = match.end()
        if start < len(text):
            yield TextPart(text[start:], start, None)


# Long texts are encoded in segments of this many characters, up to the next
# blank, or of the second number where there is none: SentencePiece's time grows
# with the square of a run of unknown characters. The third is for models for
# which blanks are no places to cut.
SEGMENT_LENGTH = 1 << 16
LONGEST_RUN = 1 << 17
LONGEST_SEGMENT = 1 << 20
_CUT = re.compile(r"(?<=\w)[ \t\n\r](?=\w)")


class Segment(NamedTuple):
    """A part of a long text that is encoded on its own.

    Attributes:
      text: the text, without the blank after it.
      start: start offset, in characters.
      follows_blank: whether the blank before it is in no segment.
    """

    text: str
    start: int
    follows_blank: bool


def segments(text: str, length: int) -> Iterator[Segment]:
    """Yields segments of a text, so that memory does not grow with its length.

    A text of at most `length` characters is one segment. A longer one is cut at
    a blank between two words, where no piece of a word can continue, so that
    its ids are those of the whole text. (SentencePiece adds up the scores of
    all pieces in float32. Of segmentations with nearly the same score, a text
    of millions of characters as a whole may get another one.) Only a run of
    `LONGEST_RUN` characters without a blank is cut inside.

    Args:
      text: a text without special tokens.
      length: length of a segment, up to the next blank.
    """
    start, follows_blank = 0, False
    while len(text) - start > length:
        most = start + max(length, LONGEST_RUN)
        cut = _CUT.search(text, start + length, most)
        end = cut.start() if cut else most
        yield Segment(text[start:end], start, follows_blank)
        start, follows_blank = (cut.end(), True) if cut else (end, False)
    if start < len(text):
        yield Segment(text[start:], start, follows_blank)
