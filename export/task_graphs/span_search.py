"""From the spans of windows to the best answer of each question, as a graph."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from albert_tf.export.endpoint import Tensors
from albert_tf.export.task_graphs.span_beams import (
    END_PLACES,
    END_SCORES,
    START_PLACES,
    START_SCORES,
)
from albert_tf.export.task_graphs.span_contexts import SpanContexts
from albert_tf.export.task_graphs.span_windows import GraphWindows


class Spans(NamedTuple):
    """Spans of contexts that may be answers, in the order of their windows.

    Attributes:
      question_of: int64 `[spans]`, the question of each; goes up.
      begins: int64 `[spans]`: where the text begins, see `SpanContexts`.
      ends: int64 `[spans]`: where it ends.
      scores: float64 `[spans]`: of start and end together.
    """

    question_of: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor


class BestSpans(NamedTuple):
    """The best answer of each question.

    Attributes:
      is_found: bool `[batch]`, whether there is any.
      begins: int64 `[batch]`; see `Spans`, as the next two. 0: there is none.
      ends: int64 `[batch]`.
      scores: float64 `[batch]`.
      probabilities: float64 `[batch]`: of it among the best answers; 0: there
        is none.
    """

    is_found: tf.Tensor
    begins: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor
    probabilities: tf.Tensor


def allowed_spans(
    beams: Tensors,
    windows: GraphWindows,
    question_lengths: tf.Tensor,
    piece_begins: tf.Tensor,
    contexts: SpanContexts,
    max_answer_length: int,
) -> Spans:
    """Returns the spans that lie in the context of their question.

    Args:
      beams: of each window, see `SpanBeams`.
      windows: the windows.
      question_lengths: int64 `[batch]`, in pieces.
      piece_begins: int64 `[batch]`: where the pieces of the question's context
        begin among those of all contexts.
      contexts: the contexts.
      max_answer_length: longest answer, in pieces.
    """
    counts = windows.pieces.row_lengths()
    # [CLS] and [SEP] are around the question.
    firsts = tf.gather(question_lengths + 2, windows.question_of)
    starts, ends = (
        tf.cast(beams[name], tf.int64) - firsts[:, None]
        for name in (START_PLACES, END_PLACES)
    )
    allowed = (starts >= 0) & (starts <= ends) & (ends < counts[:, None])
    allowed &= ends - starts < max_answer_length
    chosen = tf.where(allowed)
    window_of = chosen[:, 0]
    start, end = (
        tf.gather(windows.pieces.row_starts(), window_of)
        + tf.gather_nd(place, chosen)
        for place in (starts, ends)
    )

    has_max_context = tf.gather(windows.max_context, start)
    chosen, start, end = (
        tf.boolean_mask(x, has_max_context) for x in (chosen, start, end)
    )
    question_of = tf.gather(windows.question_of, chosen[:, 0])
    begin = tf.gather(piece_begins, question_of)
    begins, limits = contexts.strip(
        begin + tf.gather(windows.pieces.values, start),
        begin + tf.gather(windows.pieces.values, end),
    )
    scores = [
        tf.cast(tf.gather_nd(beams[name], chosen), tf.float64)
        for name in (START_SCORES, END_SCORES)
    ]
    return Spans(question_of, begins, limits, tf.add_n(scores))


def best_spans(
    spans: Spans, contexts: SpanContexts, batch: tf.Tensor, n_best: int
) -> BestSpans:
    """Returns what `answer_question` finds best.

    Args:
      spans: of all questions.
      contexts: what their texts are spelled from.
      batch: int64 scalar, how many questions there are.
      n_best: how many answers of different texts are kept, of which
        probabilities are.
    """
    # By question, the best score first; of equal ones the first.
    order = tf.argsort(spans.scores, direction="DESCENDING", stable=True)
    question_of = tf.gather(spans.question_of, order)
    order = tf.gather(order, tf.argsort(question_of, stable=True))
    spans = Spans(*(tf.gather(x, order) for x in spans))

    # Equal texts count once, with the best score.
    texts = contexts.spell(spans.begins, spans.ends)
    _, text = tf.unique(texts, tf.int64)
    count = tf.size(texts, tf.int64)
    distinct, first_of = tf.unique(spans.question_of * count + text, tf.int64)
    firsts = tf.math.unsorted_segment_min(
        tf.range(count), first_of, tf.size(distinct, tf.int64)
    )
    spans = Spans(*(tf.gather(x, firsts) for x in spans))

    counts = tf.math.bincount(
        tf.cast(spans.question_of, tf.int32),
        minlength=tf.cast(batch, tf.int32),
        dtype=tf.int64,
    )
    begins = tf.cumsum(counts, exclusive=True)
    rank = tf.range(tf.size(firsts, tf.int64)) - tf.gather(
        begins, spans.question_of
    )
    spans = Spans(*(tf.boolean_mask(x, rank < n_best) for x in spans))
    rank = tf.boolean_mask(rank, rank < n_best)
    best = Spans(*(tf.boolean_mask(x, rank == 0) for x in spans))

    def of_question(values):
        return tf.scatter_nd(best.question_of[:, None], values, batch[None])

    highest = of_question(best.scores)
    totals = tf.math.unsorted_segment_sum(
        tf.exp(spans.scores - tf.gather(highest, spans.question_of)),
        spans.question_of,
        batch,
    )
    return BestSpans(
        is_found=counts > 0,
        begins=of_question(best.begins),
        ends=of_question(best.ends),
        scores=highest,
        probabilities=tf.math.divide_no_nan(tf.ones_like(totals), totals),
    )
