"""Tokens, and special tokens spelled out in a text, such as `[MASK]`."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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


class Part(NamedTuple):
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

    def split(self, text: str) -> Iterator[Part]:
        """Yields the special tokens of a text and the texts between them."""
        start = 0
        # `re` caches compiled patterns, and `re.split` returns the separators
        # at the odd positions.
        for i, part in enumerate(re.split(self.any_pattern, text)):
            special = None
            if i % 2:
                special = self.ids.get(part)
                special = self.ids[part.lower()] if special is None else special
            if part:
                yield Part(part, start, special)
            start += len(part)


def tokens_around_specials(
    text: str,
    special_tokens: SpecialTokens,
    tokens_of: Callable[[str], Iterable[Token]],
) -> Iterator[Token]:
    """Yields the tokens of a text, including special tokens.

    Args:
      text: the original text.
      special_tokens: the special tokens to split at.
      tokens_of: function that tokenizes the text between special tokens.
    """
    spelling = {i: token for token, i in special_tokens.ids.items()}
    for part in special_tokens.split(text):
        if part.id is not None:
            end = part.start + len(part.text)
            yield Token(spelling[part.id], part.id, part.start, end)
            continue
        for piece, piece_id, start, end in tokens_of(part.text):
            yield Token(piece, piece_id, part.start + start, part.start + end)
