"""Answers decoded from the outputs of models for windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.question_answering.answers import (
    NO_SPAN,
    AnswerText,
    Outputs,
    QuestionAnswers,
    QuestionScores,
)
from albert_tf.finetuning.question_answering.contexts import Contexts
from albert_tf.finetuning.question_answering.decoder import (
    NULL_SCORE,
    WindowPieces,
    best_answers,
    best_positions,
    null_scores,
)

# Questions that are decoded together.
_BATCH = 256


def answer_questions(
    questions: Sequence[QuestionScores],
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
) -> list[QuestionAnswers]:
    """Decodes the scores of questions.

    Scores of several models are averaged, see `best_answers`. Without an
    allowed span, the answer is the original's: "empty" from the v1 head, ""
    from the joint head.

    Args:
      questions: Scores of the same models, which have the same head.
      n_best: Maximum number of answers to a question; for the v1 head also the
        number of starts and of ends considered in each window.
      max_answer_length: Length of the longest answer, in pieces.
    """
    answers = []
    # Not on an accelerator: the decoder handles strings and small integers.
    with tf.device("CPU:0"):
        for start in range(0, len(questions), _BATCH):
            answers += _answer_batch(
                questions[start : start + _BATCH], n_best, max_answer_length
            )
    return answers


def _answer_batch(
    questions: Sequence[QuestionScores], n_best: int, max_answer_length: int
) -> list[QuestionAnswers]:
    windows = [window for question in questions for window in question.windows]

    def concatenated(name: str, dtype: tf.DType) -> tf.Tensor:
        values = [getattr(window, name) for window in windows]
        return tf.constant(np.concatenate(values), dtype)

    pieces = WindowPieces(
        question_of=tf.constant(
            [i for i, q in enumerate(questions) for _ in q.windows], tf.int64
        ),
        first_context_token=tf.constant(
            [window.first_context_token for window in windows], tf.int64
        ),
        lengths=tf.constant(
            [len(window.starts) for window in windows], tf.int64
        ),
        starts=concatenated("starts", tf.int64),
        ends=concatenated("ends", tf.int64),
        max_context=concatenated("max_context", tf.bool),
    )
    lengths = [len(window.ids) for window in windows]
    members = [
        _best_positions(
            [row for member in rows for row in member], lengths, n_best
        )
        for rows in zip(*(q.members for q in questions), strict=True)
    ]
    count = len(questions)
    best = best_answers(
        pieces,
        members,
        Contexts(tf.constant([q.context for q in questions], tf.string)),
        tf.range(count, dtype=tf.int64),
        n_best=n_best,
        max_answer_length=max_answer_length,
    )
    null = null_scores(pieces, members, tf.constant(count, tf.int64))
    head = "v1" if NULL_SCORE not in members[0] else "joint"
    return [
        QuestionAnswers(
            id=question.id,
            best=tuple(
                AnswerText(
                    text=question.context[start:end],
                    start=start,
                    end=end,
                    probability=probability,
                    start_score=start_score,
                    end_score=end_score,
                )
                for start, end, start_score, end_score, probability in zip(
                    *answers, strict=True
                )
            )
            or (_no_span(head),),
            null_score=null_score,
        )
        for question, null_score, *answers in zip(
            questions,
            [None] * count if null is None else null.numpy().tolist(),
            *(values.to_list() for values in best),
            strict=True,
        )
    ]


def _best_positions(
    rows: Sequence[Outputs], lengths: Sequence[int], n_best: int
) -> dict[str, tf.Tensor]:
    """Returns the best positions of rows, which need not be equally long."""
    longest = max(lengths)
    outputs = {}
    for name in rows[0]:
        if name in ("start_logits", "end_logits"):
            values = np.zeros([len(rows), longest], np.float32)
            for value, row, length in zip(values, rows, lengths, strict=True):
                value[:length] = row[name][:length]
        else:
            values = np.stack([row[name] for row in rows])
        outputs[name] = tf.constant(values)
    input_mask = tf.sequence_mask(lengths, longest, tf.int32)
    return best_positions(outputs, input_mask, min(n_best, longest))


def _no_span(head: str) -> AnswerText:
    text, score = NO_SPAN[head]
    return AnswerText(
        text=text,
        start=None,
        end=None,
        probability=1.0,
        start_score=score,
        end_score=score,
    )
