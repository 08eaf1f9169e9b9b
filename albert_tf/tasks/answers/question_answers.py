"""From the scores of a question's windows to its best answers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from albert_tf.data.features.span_window import SpanWindow
from albert_tf.errors import InputError
from albert_tf.tasks.answers.answer_text import AnswerText
from albert_tf.tasks.answers.window_spans import (
    WindowSpans,
    average_spans,
    spans_of_beams,
    spans_of_logits,
)

# What the model gives for one row, by name (see `AlbertSpanLabeler`).
Outputs = Mapping[str, np.ndarray]

_V1 = ("start_logits", "end_logits")
_JOINT = (
    "start_top_log_probs",
    "start_top_index",
    "end_top_log_probs",
    "end_top_index",
)
_NULL = "is_impossible_logits"


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswers:
    """What the models say to a question.

    Attributes:
      id: of the question.
      best: the best answers, best first; texts are different. At least one.
      null_score: the higher, the less likely the context has the answer; None:
        the head does not say.
    """

    id: str
    best: tuple[AnswerText, ...]
    null_score: float | None

    def text(self, threshold: float | None = None) -> str:
        """Returns the best answer, or "" if there is none in the context.

        Args:
          threshold: there is none where the null score is above; None: there
            always is one.

        Raises:
          InputError: a threshold, and no null score.
        """
        if threshold is None:
            return self.best[0].text
        if self.null_score is None:
            raise InputError(
                f"threshold={threshold}: the head does not say whether there "
                "is an answer; leave the threshold out, or train a joint head"
            )
        return "" if self.null_score > threshold else self.best[0].text


def answer_question(
    question_id: str,
    context: str,
    windows: Sequence[SpanWindow],
    members: Sequence[Sequence[Outputs]],
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
) -> QuestionAnswers:
    """Decodes what one or several models say of the windows of a question.

    As the original: scores of start and end are added up and compared across
    windows; equal texts count once, with the best score. Of several models,
    scores of equal spans are averaged, and null scores, each the least of all
    windows.

    Where no span is allowed, as in a context without pieces, the answer is the
    original's: "empty" by the v1 head, "" by the joint one.

    Args:
      question_id: the question.
      context: the text that answers are cut from.
      windows: all windows of the question.
      members: for each model its outputs for each window, in the same order;
        rows may be padded.
      n_best: how many answers are kept, and for the v1 head how many starts
        and how many ends of a window are looked at.
      max_answer_length: longest answer, in pieces.

    Raises:
      InputError: outputs are missing, or models have different heads.
    """
    heads = {_head(member) for member in members}
    if len(heads) != 1:
        raise InputError(
            f"question {question_id}: {len(heads)} kinds of span heads; only "
            "models of one kind can answer together"
        )
    [head] = heads
    spans = []
    for index, window in enumerate(windows):
        rows = [member[index] for member in members]
        if head is _V1:
            found = [
                spans_of_logits(
                    window,
                    *(row[name] for name in _V1),
                    n_best=n_best,
                    max_answer_length=max_answer_length,
                )
                for row in rows
            ]
        else:
            found = [
                spans_of_beams(
                    window,
                    *(row[name] for name in _JOINT),
                    max_answer_length=max_answer_length,
                )
                for row in rows
            ]
        spans.append(average_spans(found))

    best = _best(context, windows, spans, n_best)
    if head is _V1:
        return QuestionAnswers(
            id=question_id,
            best=best or (_no_span("empty", 0.0),),
            null_score=None,
        )
    lowest = [min(float(row[_NULL]) for row in member) for member in members]
    return QuestionAnswers(
        id=question_id,
        best=best or (_no_span("", -1e6),),
        null_score=sum(lowest) / len(lowest),
    )


def _head(member: Sequence[Outputs]) -> tuple[str, ...]:
    for head in (_V1, _JOINT):
        if all(name in row for row in member for name in head):
            return head
    raise InputError(
        f"outputs {', '.join(sorted(member[0]))}: not those of a span head; "
        "give what AlbertSpanLabeler gives without start_positions"
    )


def _best(
    context: str,
    windows: Sequence[SpanWindow],
    spans: Sequence[WindowSpans],
    n_best: int,
) -> tuple[AnswerText, ...]:
    """Returns the best answers, best first; empty if there is no span."""
    start_scores = np.concatenate([each.start_scores for each in spans])
    end_scores = np.concatenate([each.end_scores for each in spans])
    starts, limits = (
        np.concatenate(offsets)
        for offsets in (
            [w.starts[s.starts] for w, s in zip(windows, spans, strict=True)],
            [w.limits[s.ends] for w, s in zip(windows, spans, strict=True)],
        )
    )
    texts: dict[str, int] = {}
    for i in np.argsort(-(start_scores + end_scores), kind="stable").tolist():
        texts.setdefault(context[starts[i] : limits[i]].strip(), i)
        if len(texts) == n_best:
            break
    chosen = list(texts.values())
    pairs = [(float(start_scores[i]), float(end_scores[i])) for i in chosen]
    begins = [_first_solid(context, starts[i], limits[i]) for i in chosen]
    return tuple(
        AnswerText(
            text=text,
            start=begin,
            limit=begin + len(text),
            probability=probability,
            start_score=start_score,
            end_score=end_score,
        )
        for text, begin, probability, (start_score, end_score) in zip(
            texts, begins, _softmax([sum(p) for p in pairs]), pairs, strict=True
        )
    )


def _first_solid(context: str, start: int, limit: int) -> int:
    """Returns where the text of a span begins, without white space."""
    text = context[start:limit]
    return int(start) + len(text) - len(text.lstrip())


def _softmax(scores: list[float]) -> list[float]:
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [exponential / total for exponential in exponentials]


def _no_span(text: str, score: float) -> AnswerText:
    return AnswerText(
        text=text,
        start=None,
        limit=None,
        probability=1.0,
        start_score=score,
        end_score=score,
    )
