"""Special tokens that are spelled out in texts, such as `[MASK]`."""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Part(NamedTuple):
    """A stretch of a text.

    Attributes:
      text: as it is in the text.
      start: where it begins, in characters.
      id: the id of the special token that it is, or None.
    """

    text: str
    start: int
    id: int | None


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Finds special tokens as Hugging Face's tokenizers do.

    They match as they are spelled, the longest first. Where characters are
    lower-cased first, that happens before the search, which so also finds
    `<PAD>` for `<pad>`.

    Attributes:
      ids: spelling -> id, of special tokens and whatever else texts are cut at.
      lower_characters_first: whether the text is lower-cased before the
        search, but for special tokens that match without.
    """

    ids: Mapping[str, int]
    lower_characters_first: bool = False

    def pattern(self, token: str) -> str:
        """Returns what matches a token, for both `re` and RE2."""
        spelling = re.escape(token)
        any_case = self.lower_characters_first and token == token.lower()
        return f"(?i:{spelling})" if any_case else spelling

    @functools.cached_property
    def any_pattern(self) -> str:
        """What matches every token, as one group."""
        longest_first = sorted(self.ids, key=len, reverse=True)
        return f"({'|'.join(map(self.pattern, longest_first))})"

    def split(self, text: str) -> Iterator[Part]:
        """Yields the special tokens of a text, and what is between them."""
        start = 0
        # `re` keeps compiled patterns, and `re.split` puts what it split at
        # into the odd places.
        for i, part in enumerate(re.split(self.any_pattern, text)):
            special = None
            if i % 2:
                special = self.ids.get(part)
                special = self.ids[part.lower()] if special is None else special
            if part:
                yield Part(part, start, special)
            start += len(part)
