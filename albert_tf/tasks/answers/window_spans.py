"""Which spans of a window may be the answer, with their scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.data.features.span_window import SpanWindow


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowSpans:
    """Spans of one window, all of them different, and of one length.

    Attributes:
      starts: int `[spans]`, the first piece of each, counted in the window's
        pieces of the context.
      ends: int `[spans]`, the last piece.
      start_scores: float64 `[spans]`.
      end_scores: float64 `[spans]`.
    """

    starts: np.ndarray
    ends: np.ndarray
    start_scores: np.ndarray
    end_scores: np.ndarray


def spans_of_logits(
    window: SpanWindow,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    *,
    n_best: int,
    max_answer_length: int,
) -> WindowSpans:
    """Returns the spans of the best starts and ends of the v1 head.

    The best are those of the whole row, as in the original, but for padding:
    how much of it a row has must not matter.

    Args:
      window: the row.
      start_logits: `[length or more]`; what is beyond the row is padding.
      end_logits: likewise.
      n_best: how many starts and how many ends are taken.
      max_answer_length: of a span, in pieces.
    """
    start_logits, end_logits = (
        np.asarray(logits, np.float64)[: len(window.ids)]
        for logits in (start_logits, end_logits)
    )
    best_starts, best_ends = (
        np.argsort(-logits, kind="stable")[:n_best]
        for logits in (start_logits, end_logits)
    )
    starts = np.repeat(best_starts, len(best_ends))
    ends = np.tile(best_ends, len(best_starts))
    return _allowed(
        window,
        starts,
        ends,
        start_logits[starts],
        end_logits[ends],
        max_answer_length,
    )


def spans_of_beams(
    window: SpanWindow,
    start_top_log_probs: np.ndarray,
    start_top_index: np.ndarray,
    end_top_log_probs: np.ndarray,
    end_top_index: np.ndarray,
    *,
    max_answer_length: int,
) -> WindowSpans:
    """Returns the spans of the joint head's beams.

    Args:
      window: the row.
      start_top_log_probs: `[K]`, of the best starts.
      start_top_index: `[K]`, where in the row they are.
      end_top_log_probs: `[K * M]`, of the best ends of the first start, of the
        second, and so on.
      end_top_index: `[K * M]`, where in the row they are.
      max_answer_length: of a span, in pieces.
    """
    ends_a_start = len(end_top_index) // len(start_top_index)
    return _allowed(
        window,
        np.repeat(start_top_index, ends_a_start),
        np.asarray(end_top_index),
        np.repeat(np.asarray(start_top_log_probs, np.float64), ends_a_start),
        np.asarray(end_top_log_probs, np.float64),
        max_answer_length,
    )


def average_spans(members: Sequence[WindowSpans]) -> WindowSpans:
    """Averages what several models say of the spans of one window.

    As in the original, the average is over the models that have the span among
    their best.
    """
    if len(members) == 1:
        return members[0]
    scores: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for member in members:
        for start, end, start_score, end_score in zip(
            member.starts.tolist(),
            member.ends.tolist(),
            member.start_scores.tolist(),
            member.end_scores.tolist(),
            strict=True,
        ):
            scores.setdefault((start, end), []).append((start_score, end_score))
    spans = np.array(list(scores), int).reshape(-1, 2)
    means = np.array(
        [np.mean(pairs, axis=0) for pairs in scores.values()]
    ).reshape(-1, 2)
    return WindowSpans(
        starts=spans[:, 0],
        ends=spans[:, 1],
        start_scores=means[:, 0],
        end_scores=means[:, 1],
    )


def _allowed(
    window: SpanWindow,
    starts: np.ndarray,
    ends: np.ndarray,
    start_scores: np.ndarray,
    end_scores: np.ndarray,
    max_answer_length: int,
) -> WindowSpans:
    """Returns the spans that lie in the context; positions are of the row."""
    starts = starts - window.first_context_token
    ends = ends - window.first_context_token
    pieces = len(window.max_context)
    allowed = (starts >= 0) & (starts <= ends) & (ends < pieces)
    allowed &= ends - starts < max_answer_length
    allowed[allowed] = window.max_context[starts[allowed]]
    return WindowSpans(
        starts=starts[allowed],
        ends=ends[allowed],
        start_scores=start_scores[allowed],
        end_scores=end_scores[allowed],
    )
