"""A question and a stretch of its context, as a row for the model."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SpanWindow:
    """`[CLS] question [SEP] pieces of the context [SEP]`, without padding.

    Attributes:
      example_id: the id of the question.
      index: which window of the question it is, from 0.
      ids: int32 `[length]`.
      first_context_token: where in the row the context begins.
      starts: int32 `[pieces]`, where in the context the text of each of the
        window's pieces of it begins, in characters.
      limits: int32 `[pieces]`, where it ends.
      max_context: bool `[pieces]`, whether no other window has more of the
        context around the piece. Answers start at such pieces only, so that no
        span is scored twice.
      start_position: label: where in the row the answer starts; None, as the
        next two: not asked for.
      end_position: label: the last piece of the answer.
      is_impossible: label: the window has no answer, or not the whole of it;
        both positions are then 0, as in the original.
    """

    example_id: str
    index: int
    ids: np.ndarray
    first_context_token: int
    starts: np.ndarray
    limits: np.ndarray
    max_context: np.ndarray
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool | None = None

    @property
    def types(self) -> np.ndarray:
        """Segments, int32 `[length]`: 1 from the context on."""
        types = np.zeros_like(self.ids)
        types[self.first_context_token :] = 1
        return types

    @property
    def p_mask(self) -> np.ndarray:
        """1 where no answer can be, int32 `[length]`.

        0 for the context, and for `[CLS]`, which stands for no answer.
        """
        p_mask = np.ones_like(self.ids)
        p_mask[0] = 0
        p_mask[self.first_context_token : -1] = 0
        return p_mask
