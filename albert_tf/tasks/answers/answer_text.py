"""An answer in words, with its scores."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerText:
    """One of the answers that a question may have.

    Attributes:
      text: cut from the context, without white space around it.
      start: where it begins in the context, in characters; None, as the next:
        it is no part of it.
      limit: where it ends.
      probability: among the question's best answers.
      start_score: of the first piece: a logit of the v1 head, a log-probability
        of the joint head.
      end_score: of the last piece.
    """

    text: str
    start: int | None
    limit: int | None
    probability: float
    start_score: float
    end_score: float
