"""Tokens, special tokens such as `[MASK]`, and segments of long texts."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from albert_tf.text.normalizer import lower_characters


class Token(NamedTuple):
    """A token of a text.

    Attributes:
      piece: the piece, with `▁` at the start of a word (SentencePiece) or `##`
        inside a word (WordPiece). For unknown text, the text itself
        (SentencePiece) or `[UNK]` (WordPiece).
      id: id of the piece.
      start: start offset in the original text, in characters. A piece with `▁`
        starts at the space before the word.
      end: end offset, exclusive.
    """

    piece: str
    id: int
    start: int
    end: int


class TextPart(NamedTuple):
    """A special token in a text, or the text between two special tokens.

    Attributes:
      text: the text as it was written.
      start: start offset, in characters.
      id: id of the special token; None for ordinary text.
    """

    text: str
    start: int
    id: int | None


# Besides its capital, characters that are lower-cased to a letter.
_MORE_CAPITALS = "\N{KELVIN SIGN}\N{ANGSTROM SIGN}\N{OHM SIGN}\u03f4\u1e9e"


def _any_case(letter: str) -> str:
    """Returns the expression of the characters that `lower` makes a letter.

    `(?i:s)` would match the long s as well, which stays what it is.
    """
    capitals = (letter.upper(), letter.title(), *_MORE_CAPITALS)
    others = {x for x in capitals if x.lower() == letter} - {letter}
    if not others:
        return re.escape(letter)
    return f"[{letter}{''.join(sorted(others))}]"


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Splits texts at special tokens, as Hugging Face's tokenizers do.

    The longest token that matches is used. With `lower_characters_first`,
    tokens without capitals match in any case, such as `<PAD>` for `<pad>`.

    Attributes:
      ids: ids of the tokens at which texts are split, by token.
      lower_characters_first: whether tokens without capitals match in any case,
        as if the text had been lower-cased first.
    """

    ids: Mapping[str, int]
    lower_characters_first: bool = False

    def pattern(self, token: str) -> str:
        """Returns the regular expression of a token, for `re` and RE2."""
        if not self.lower_characters_first or token != token.lower():
            return re.escape(token)
        return "".join(map(_any_case, token))

    @functools.cached_property
    def any_pattern(self) -> str:
        """Regular expression that matches any of the tokens, as a group."""
        longest_first = sorted(self.ids, key=len, reverse=True)
        return f"({'|'.join(map(self.pattern, longest_first))})"

    def split(self, text: str) -> Iterator[TextPart]:
        """Splits a text into special tokens and the texts between them."""
        start = 0
        # `re` caches compiled patterns.
        for match in re.finditer(self.any_pattern, text) if self.ids else ():
            token = match.group()
            if match.start() > start:
                yield TextPart(text[start : match.start()], start, None)
            special = self.ids.get(token)
            if special is None:
                special = self.ids[lower_characters(token)]
            yield TextPart(token, match.start(), special)
            start = match.end()
        if start < len(text):
            yield TextPart(text[start:], start, None)


# Long texts are encoded in segments of this many characters, up to the next
# space.
SEGMENT_LENGTH = 1 << 16
# Without a space a segment ends here, since SentencePiece takes quadratic time
# for a run of unknown characters.
LONGEST_RUN = 1 << 17
# Segments of models that do not allow splitting at spaces.
LONGEST_SEGMENT = 1 << 20
_SPACE_BETWEEN_WORDS = re.compile(r"(?<=\w)[ \t\n\r](?=\w)")


class Segment(NamedTuple):
    """A part of a long text that is encoded on its own.

    Attributes:
      text: the text, without the space after it.
      start: start offset, in characters.
      follows_space: whether the text was split at the space before the segment.
    """

    text: str
    start: int
    follows_space: bool


def segments(text: str, length: int) -> Iterator[Segment]:
    """Splits a text into segments that are encoded in bounded memory.

    The text has no special tokens. One of at most `length` characters is one
    segment. A longer text is split at spaces between words, which no piece
    crosses, so that its ids do not change: at the first space after `length`
    characters or, if `length` is `LONGEST_RUN` or more, so that no segment is
    longer. (SentencePiece adds up the scores of all pieces in float32, so for a
    text of millions of characters it may choose among segmentations of nearly
    the same score differently.) A word is split only if it has more than
    `LONGEST_RUN` characters.
    """
    start, follows_space = 0, False
    while len(text) - start > length:
        limit = start + max(length, LONGEST_RUN)
        first = limit - LONGEST_RUN if length >= LONGEST_RUN else start + length
        space = _SPACE_BETWEEN_WORDS.search(text, first, limit)
        end = space.start() if space else limit
        yield Segment(text[start:end], start, follows_space)
        start, follows_space = (space.end(), True) if space else (end, False)
    if start < len(text):
        yield Segment(text[start:], start, follows_space)
