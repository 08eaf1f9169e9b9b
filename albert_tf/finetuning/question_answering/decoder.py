"""Decoding of start and end scores into answers.

`albert predict` and `albert evaluate` run it eagerly; exported models contain
it in their graph.
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
    """Returns the best start and end positions of each row.

    Args:
      outputs: Outputs of `AlbertQuestionAnswering` without `start_positions`.
      input_mask: `[rows, seq]`.
      n_best: Number of starts and ends for the v1 head; the outputs of the
        joint head are already limited.

    Returns:
      A dict of `START_INDEX` (int32) and `START_SCORE` (float32)
      `[rows, starts]`, and `END_INDEX` and `END_SCORE` `[rows, starts, ends]`,
      or `[rows, 1, ends]` for the v1 head, whose ends do not depend on the
      start. Scores are logits of the v1 head, or log-probabilities of the joint
      head. The joint head adds `NULL_SCORE`, float32 `[rows]`.
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
    """Returns the highest logits and their positions, padding last."""
    logits = tf.where(input_mask == 0, -float("inf"), logits)
    # A batch may have fewer than `n_best` positions.
    missing = tf.maximum(n_best - tf.shape(logits)[1], 0)
    logits = tf.pad(
        logits, [[0, 0], [0, missing]], constant_values=-float("inf")
    )
    return tf.math.top_k(logits, n_best)


class WindowPieces(NamedTuple):
    """Concatenated context pieces of all windows.

    Attributes:
      question_of: int64 `[windows]`, the question of each window.
      first_context_token: int64 `[windows]`, position of the context's first
        piece in the row.
      lengths: int64 `[windows]`, number of context pieces.
      starts: int64 `[pieces]`, start of each piece in the context, in
        characters.
      ends: int64 `[pieces]`, end of each piece.
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

    All fields are ragged `[questions, (answers)]`. The texts of the answers to
    a question are different. Starts and ends are characters of the context;
    probabilities are a softmax over the answers to a question.
    """

    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    start_scores: tf.RaggedTensor
    end_scores: tf.RaggedTensor
    probabilities: tf.RaggedTensor


class _Spans(NamedTuple):
    """Candidate answers; all fields are `[spans]`."""

    question_of: tf.Tensor
    starts: tf.Tensor  # In characters, like the ends.
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
    """Decodes the scores of one or several models.

    As in the original, start and end scores are summed and compared across
    windows, and equal texts count once, with the best score. The score of a
    span is the mean over the models that have it among their candidates.

    Args:
      members: The `best_positions` of each model for all windows.
      context_of: int64 `[questions]`, the context of each question.
      n_best: Maximum number of answers to a question.
      max_answer_length: Maximum length of an answer in pieces.
    """
    spans = _valid_spans(windows, members, max_answer_length)
    offsets = tf.gather(contexts.offsets, context_of)
    begins = tf.gather(offsets, spans.question_of)
    starts, ends = contexts.strip(spans.starts + begins, spans.ends + begins)
    spans = spans._replace(starts=starts, ends=ends)

    # Sorted by question and score; ties stay in the order of windows.
    scores = spans.start_scores + spans.end_scores
    spans = spans.take(tf.argsort(scores, direction="DESCENDING", stable=True))
    spans = spans.take(tf.argsort(spans.question_of, stable=True))

    # Equal texts count once, with the best score.
    _, text = tf.unique(contexts.substrings(spans.starts, spans.ends), tf.int64)
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
    begins = tf.gather(offsets, spans.question_of)
    return BestAnswers(
        *map(
            answers.with_values,
            (
                spans.starts - begins,
                spans.ends - begins,
                spans.start_scores,
                spans.end_scores,
                exponentials / tf.gather(totals, spans.question_of),
            ),
        )
    )


def _valid_spans(
    windows: WindowPieces, members: Sequence[Tensors], max_answer_length: int
) -> _Spans:
    """Returns the unique spans that are within the context of a window.

    Starts and ends are relative to the context, in characters.
    """
    starts, ends, start_scores, end_scores = _candidates(members)
    starts, ends = (
        tf.cast(x, tf.int64) - windows.first_context_token[:, None]
        for x in (starts, ends)
    )
    valid = (starts >= 0) & (starts <= ends)
    valid &= ends < windows.lengths[:, None]
    valid &= ends - starts < max_answer_length
    indices = tf.where(valid)
    first_piece = tf.cumsum(windows.lengths, exclusive=True)
    start = tf.gather(first_piece, indices[:, 0])
    start += tf.gather_nd(starts, indices)
    has_max_context = tf.gather(windows.max_context, start)
    indices = tf.boolean_mask(indices, has_max_context)
    start = tf.boolean_mask(start, has_max_context)

    # Several models may have the same span.
    length = tf.gather_nd(ends - starts, indices)
    span, index = tf.unique(start * max_answer_length + length, tf.int64)
    start_score, end_score = (
        tf.math.unsorted_segment_mean(
            tf.cast(tf.gather_nd(scores, indices), tf.float64),
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


def _candidates(members: Sequence[Tensors]) -> list[tf.Tensor]:
    """Returns all pairs of starts and ends: positions and scores.

    They are `[windows, spans]`, ordered by model, start and end.
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
    return [tf.concat(tensors, 1) for tensors in zip(*pairs, strict=True)]


def null_scores(
    windows: WindowPieces, members: Sequence[Tensors], questions: tf.Tensor
) -> tf.Tensor | None:
    """Returns the null scores, the logits of questions being unanswerable.

    They are float64 `[questions]`, the minimum over a question's windows,
    averaged over the models; None for the v1 head.
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
