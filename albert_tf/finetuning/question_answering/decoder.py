"""Decoding of start and end scores into answers, the same in every use.

`albert predict` and `albert evaluate` call it eagerly; exported models have it
in their graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.finetuning.question_answering.contexts import Contexts
from albert_tf.models.model_graph import Tensors

START_INDEX = "start_index"
START_SCORE = "start_score"
END_INDEX = "end_index"
END_SCORE = "end_score"
NULL_SCORE = "null_score"


def best_positions(
    outputs: Tensors, input_mask: tf.Tensor, n_best: int
) -> Tensors:
    """Returns the best starts and ends of each row.

    Args:
      outputs: Of `AlbertSpanLabeler`, without `start_positions`.
      input_mask: `[rows, seq]`.
      n_best: Number of starts and of ends of the v1 head; the joint head has
        chosen already.

    Returns:
      `START_INDEX` int32 and `START_SCORE` float32 `[rows, starts]`;
      `END_INDEX` and `END_SCORE` `[rows, starts, ends]`, or `[rows, 1, ends]`
      where the ends do not depend on the start. Scores are logits of the v1
      head, log-probabilities of the joint head, which adds `NULL_SCORE`
      float32 `[rows]`.
    """
    if "start_logits" in outputs:
        start_score, start_index = _top(
            outputs["start_logits"], input_mask, n_best
        )
        end_score, end_index = _top(outputs["end_logits"], input_mask, n_best)
        return {
            START_INDEX: start_index,
            START_SCORE: start_score,
            END_INDEX: end_index[:, None],
            END_SCORE: end_score[:, None],
        }
    starts = outputs["start_top_index"].shape[1]
    ends = outputs["end_top_index"].shape[1] // starts
    return {
        START_INDEX: outputs["start_top_index"],
        START_SCORE: outputs["start_top_log_probs"],
        END_INDEX: tf.reshape(outputs["end_top_index"], [-1, starts, ends]),
        END_SCORE: tf.reshape(outputs["end_top_log_probs"], [-1, starts, ends]),
        NULL_SCORE: outputs["is_impossible_logits"],
    }


def _top(
    logits: tf.Tensor, input_mask: tf.Tensor, n_best: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns values and positions of the best, padding last."""
    logits = tf.where(input_mask == 0, -float("inf"), logits)
    # A batch may have fewer positions than are asked for.
    missing = tf.maximum(n_best - tf.shape(logits)[1], 0)
    logits = tf.pad(
        logits, [[0, 0], [0, missing]], constant_values=-float("inf")
    )
    return tf.math.top_k(logits, n_best)


class WindowPieces(NamedTuple):
    """The context's pieces in all windows, laid end to end.

    Attributes:
      question_of: int64 `[windows]`, the question each window belongs to.
      first_context_token: int64 `[windows]`, position of the first piece of
        the context in the row.
      lengths: int64 `[windows]`, number of pieces of the context.
      starts: int64 `[pieces]`, where the text of each begins in its context,
        in characters.
      ends: int64 `[pieces]`, where it ends.
      max_context: bool `[pieces]`, see `Windows`.
    """

    question_of: tf.Tensor
    first_context_token: tf.Tensor
    lengths: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    max_context: tf.Tensor


class BestAnswers(NamedTuple):
    """The best answers to each question, best first.

    All are ragged `[questions, (answers)]`; texts of a question are different.

    Attributes:
      starts: int64, where the answer begins in its context, in characters.
      ends: int64, where it ends.
      start_scores: float64.
      end_scores: float64.
      probabilities: float64, softmax over the answers of a question.
    """

    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    start_scores: tf.RaggedTensor
    end_scores: tf.RaggedTensor
    probabilities: tf.RaggedTensor


class _Spans(NamedTuple):
    """Candidates for answers; every field is `[spans]`."""

    question_of: tf.Tensor
    starts: tf.Tensor  # Characters of all contexts, as the ends.
    ends: tf.Tensor
    start_scores: tf.Tensor
    end_scores: tf.Tensor

    def take(self, indices: tf.Tensor) -> _Spans:
        return _Spans(*(tf.gather(x, indices) for x in self))


def best_answers(
    windows: WindowPieces,
    members: Sequence[Tensors],
    contexts: Contexts,
    context_of: tf.Tensor,
    *,
    n_best: int,
    max_answer_length: int,
) -> BestAnswers:
    """Decodes the scores that one or several models give to windows.

    As in the original, scores of start and end are added up and compared
    across windows, and equal texts count once, with the best score. The score
    of a span is the mean over the models that have it among their best.

    Args:
      windows: All windows of the questions.
      members: The `best_positions` of each model for all windows.
      contexts: The text of the contexts.
      context_of: int64 `[questions]`, the context of each question.
      n_best: Maximum number of answers to a question.
      max_answer_length: Length of the longest answer, in pieces.
    """
    spans = _allowed_spans(windows, members, max_answer_length)
    offsets = tf.gather(
        contexts.offsets, tf.gather(context_of, spans.question_of)
    )
    starts, ends = contexts.strip(spans.starts + offsets, spans.ends + offsets)
    spans = spans._replace(starts=starts, ends=ends)

    # By question, the best score first; ties stay in the order of windows.
    scores = spans.start_scores + spans.end_scores
    spans = spans.take(tf.argsort(scores, direction="DESCENDING", stable=True))
    spans = spans.take(tf.argsort(spans.question_of, stable=True))

    # Equal texts count once, with the best score.
    _, text = tf.unique(contexts.spell(spans.starts, spans.ends), tf.int64)
    count = tf.size(text, tf.int64)
    distinct, first_of = tf.unique(spans.question_of * count + text, tf.int64)
    spans = spans.take(
        tf.math.unsorted_segment_min(
            tf.range(count), first_of, tf.size(distinct, tf.int64)
        )
    )

    questions = tf.size(context_of, tf.int64)
    answers = tf.RaggedTensor.from_value_rowids(
        tf.range(tf.size(spans.starts, tf.int64)),
        spans.question_of,
        nrows=questions,
        validate=False,
    )[:, :n_best]
    spans = spans.take(answers.values)
    scores = spans.start_scores + spans.end_scores
    highest = tf.math.unsorted_segment_max(scores, spans.question_of, questions)
    exponentials = tf.exp(scores - tf.gather(highest, spans.question_of))
    totals = tf.math.unsorted_segment_sum(
        exponentials, spans.question_of, questions
    )
    offsets = tf.gather(
        contexts.offsets, tf.gather(context_of, spans.question_of)
    )
    return BestAnswers(
        *map(
            answers.with_values,
            (
                spans.starts - offsets,
                spans.ends - offsets,
                spans.start_scores,
                spans.end_scores,
                exponentials / tf.gather(totals, spans.question_of),
            ),
        )
    )


def _allowed_spans(
    windows: WindowPieces, members: Sequence[Tensors], max_answer_length: int
) -> _Spans:
    """Returns the different spans that lie in the context of a window.

    Starts and ends are characters of the context.
    """
    starts, ends, start_scores, end_scores = _pairs(members)
    starts, ends = (
        tf.cast(x, tf.int64) - windows.first_context_token[:, None]
        for x in (starts, ends)
    )
    allowed = (starts >= 0) & (starts <= ends)
    allowed &= ends < windows.lengths[:, None]
    allowed &= ends - starts < max_answer_length
    chosen = tf.where(allowed)
    first_piece = tf.cumsum(windows.lengths, exclusive=True)
    start = tf.gather(first_piece, chosen[:, 0]) + tf.gather_nd(starts, chosen)
    has_max_context = tf.gather(windows.max_context, start)
    chosen = tf.boolean_mask(chosen, has_max_context)
    start = tf.boolean_mask(start, has_max_context)

    # Several models may have the same span.
    longer = tf.gather_nd(ends - starts, chosen)
    span, index = tf.unique(start * max_answer_length + longer, tf.int64)
    start_score, end_score = (
        tf.math.unsorted_segment_mean(
            tf.cast(tf.gather_nd(scores, chosen), tf.float64),
            index,
            tf.size(span, tf.int64),
        )
        for scores in (start_scores, end_scores)
    )
    start = span // max_answer_length
    end = start + span % max_answer_length
    question_of = tf.repeat(windows.question_of, windows.lengths)
    return _Spans(
        question_of=tf.gather(question_of, start),
        starts=tf.gather(windows.starts, start),
        ends=tf.gather(windows.ends, end),
        start_scores=start_score,
        end_scores=end_score,
    )


def _pairs(members: Sequence[Tensors]) -> list[tf.Tensor]:
    """Pairs starts and ends; returns positions and scores `[windows, spans]`.

    Spans are ordered by model, start and end.
    """
    pairs = []
    for member in members:
        rows, starts = tf.unstack(tf.shape(member[START_INDEX]))
        ends = tf.shape(member[END_INDEX])[2]
        pairs.append(
            [
                tf.reshape(
                    tf.broadcast_to(x, [rows, starts, ends]),
                    [rows, starts * ends],
                )
                for x in (
                    member[START_INDEX][:, :, None],
                    member[END_INDEX],
                    member[START_SCORE][:, :, None],
                    member[END_SCORE],
                )
            ]
        )
    return [tf.concat(parts, 1) for parts in zip(*pairs, strict=True)]


def null_scores(
    windows: WindowPieces, members: Sequence[Tensors], questions: tf.Tensor
) -> tf.Tensor | None:
    """Returns how unlikely it is that the context has the answer.

    Args:
      windows: All windows of the questions.
      members: See `best_answers`.
      questions: int64 scalar, the number of questions.

    Returns:
      float64 `[questions]`: the least of all windows, averaged over the
      models; None if they have no joint head.
    """
    if NULL_SCORE not in members[0]:
        return None
    lowest = [
        tf.math.unsorted_segment_min(
            member[NULL_SCORE], windows.question_of, questions
        )
        for member in members
    ]
    return tf.add_n([tf.cast(x, tf.float64) for x in lowest]) / len(members)
