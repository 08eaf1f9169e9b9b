"""The pieces of a context, where they come from, and which an answer has."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from albert_tf.data.examples.example import Answer
    from albert_tf.text.base_tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SpanContext:
    """A context in pieces.

    Attributes:
      text: the context as it was read.
      ids: int32 `[pieces]`.
      starts: int32 `[pieces]`, where the text of each begins in the context, in
        characters. A piece with `▁` begins at the blank before the word.
      limits: int32 `[pieces]`, where it ends.
    """

    text: str
    ids: np.ndarray
    starts: np.ndarray
    limits: np.ndarray

    @classmethod
    def from_text(cls, text: str, tokenizer: Tokenizer) -> SpanContext:
        """Tokenizes a context; the offsets are the tokenizer's, and exact."""
        tokens = tokenizer.tokenize_with_offsets(text)
        table = np.array(
            [(token.id, token.start, token.limit) for token in tokens],
            np.int32,
        ).reshape(-1, 3)
        ids, starts, limits = np.ascontiguousarray(table.T)
        return cls(text=text, ids=ids, starts=starts, limits=limits)

    def pieces_of(self, answer: Answer) -> range | None:
        """Returns the pieces that have any character of an answer.

        White space around the answer does not count: the blank after it belongs
        to the piece of the next word.

        Args:
          answer: what counts is its place, that is, where its text begins and
            how long it is.

        Returns:
          Never an empty range; None if no piece has a character of the answer,
          as nothing is left of such as a control character.
        """
        start, limit = _stripped(answer)
        # Offsets go up but for marks that normal forms put in another order.
        limits = np.maximum.accumulate(self.limits)
        starts = np.minimum.accumulate(self.starts[::-1])[::-1]
        first = int(np.searchsorted(limits, start, "right"))
        last = int(np.searchsorted(starts, limit, "left")) - 1
        return range(first, last + 1) if first <= last else None

    def cut(self, pieces: range) -> str:
        """Returns the text of pieces, without white space around it."""
        start, limit = self.starts[pieces[0]], self.limits[pieces[-1]]
        return self.text[start:limit].strip()

    def problem_of(self, answer: Answer) -> str | None:
        """Returns why pieces do not give back an answer's text; None: they do.

        The reason is one of a few, so that they can be counted.
        """
        start, limit = _stripped(answer)
        wanted = answer.text.strip()
        if answer.start < 0 or self.text[start:limit] != wanted:
            return "not at its offset"
        pieces = self.pieces_of(answer)
        if pieces is None:
            return "no piece has it"
        if self.cut(pieces) == wanted:
            return None
        before = self.text[self.starts[pieces[0]] : start].strip()
        after = self.text[limit : self.limits[pieces[-1]]].strip()
        if before and after:
            return "begins and ends inside a piece"
        if before or after:
            return "begins inside a piece" if before else "ends inside a piece"
        return "begins or ends with what no piece has"


def _stripped(answer: Answer) -> tuple[int, int]:
    """Returns where an answer begins and ends, white space not counted."""
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    return start, start + len(answer.text.strip())
