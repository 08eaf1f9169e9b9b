"""Answers to questions, decoded from scores, and the original's files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.contexts import Contexts
from albert_tf.finetuning.question_answering.decoder import (
    NULL_SCORE,
    WindowPieces,
    best_answers,
    best_positions,
    null_scores,
)

if TYPE_CHECKING:
    from albert_tf.finetuning.question_answering.features import SpanWindow

# The outputs of the model for one window, see `AlbertSpanLabeler`.
Outputs = Mapping[str, np.ndarray]

# The original's text, and its scores of start and end, if no span is allowed,
# as in a context without pieces.
NO_SPAN = {"v1": ("empty", 0.0), "joint": ("", -1e6)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerText:
    """One of the best answers to a question.

    Attributes:
      text: Text of the context, without surrounding white space.
      start: Where it begins in the context, in characters; None, like `end`,
        if it is not part of the context.
      end: Where it ends.
      probability: Softmax over the best answers to the question.
      start_score: Score of the first piece: a logit of the v1 head, a
        log-probability of the joint head.
      end_score: Score of the last piece.
    """

    text: str
    start: int | None
    end: int | None
    probability: float
    start_score: float
    end_score: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnswers:
    """The answers of one or several models to a question.

    Attributes:
      id: Question ID.
      best: At least one answer, best first; their texts are different.
      null_score: The higher, the less likely the context has the answer; None
        without a joint head.
    """

    id: str
    best: tuple[AnswerText, ...]
    null_score: float | None

    def text(self, threshold: float | None = None) -> str:
        """Returns the best answer, or "" if the null score is too high.

        Args:
          threshold: Highest null score of a question that is answered; None to
            answer always, as the v1 head has no null scores.
        """
        score = self.null_score
        if threshold is not None and score is not None and score > threshold:
            return ""
        return self.best[0].text

    def n_best(self) -> list[dict[str, Any]]:
        """Returns the best answers as in `nbest_predictions.json`."""
        return [
            {
                "text": answer.text,
                "probability": answer.probability,
                "start_log_prob": answer.start_score,
                "end_log_prob": answer.end_score,
            }
            for answer in self.best
        ]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QuestionScores:
    """The outputs of one or several models for the windows of a question.

    Attributes:
      id: Question ID.
      context: Text that answers are taken from.
      windows: All windows of the question.
      members: For each model, its outputs for each window; they may be padded.
    """

    id: str
    context: str
    windows: Sequence[SpanWindow]
    members: Sequence[Sequence[Outputs]]


class AnswerPrediction(NamedTuple):
    """Scores of the windows of a question, and the answers decoded from them.

    Attributes:
      scores: Scores of one or several models.
      answers: The best answers.
    """

    scores: QuestionScores
    answers: QuestionAnswers


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
    text, score = NO_SPAN["joint" if NULL_SCORE in members[0] else "v1"]
    no_span = AnswerText(
        text=text,
        start=None,
        end=None,
        probability=1.0,
        start_score=score,
        end_score=score,
    )
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
            or (no_span,),
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


def combine_scores(
    members: Mapping[str, Sequence[QuestionScores]],
) -> list[QuestionScores]:
    """Returns the scores of an ensemble: those of all members, side by side.

    Args:
      members: Scores of each model for the same questions, by its path.

    Raises:
      InputError: If the models have different heads, tokenizers or lengths.
    """
    first_name, *names = members
    combined = []
    for first, *others in zip(*members.values(), strict=True):
        for name, other in zip(names, others, strict=True):
            models = f"ensemble: {first_name} and {name}"
            if not _same_windows(first.windows, other.windows):
                raise InputError(
                    f"{models} cut question {first.id} into different windows; "
                    "models that answer together need the same vocabulary, "
                    "max_seq_length, doc_stride and max_query_length"
                )
            if first.members[0][0].keys() != other.members[0][0].keys():
                raise InputError(
                    f"{models} have different heads; models that answer "
                    "together need the same"
                )
        outputs = [rows for each in (first, *others) for rows in each.members]
        combined.append(dataclasses.replace(first, members=outputs))
    return combined


def _same_windows(
    ours: Sequence[SpanWindow], theirs: Sequence[SpanWindow]
) -> bool:
    return len(ours) == len(theirs) and all(
        np.array_equal(a.ids, b.ids) for a, b in zip(ours, theirs, strict=True)
    )


def write_answers(
    answers: Iterable[QuestionAnswers],
    *,
    predictions: TextIO,
    nbest: TextIO,
    null_odds: TextIO | None = None,
    threshold: float | None = None,
) -> int:
    """Writes the original's files, one question at a time.

    Args:
      answers: Any number.
      predictions: File of the answers (`predictions.json`).
      nbest: File of the best answers (`nbest_predictions.json`).
      null_odds: File of the null scores (`null_odds.json`); joint head only.
      threshold: See `QuestionAnswers.text`.

    Returns:
      The number of questions.
    """
    count = 0
    files = [file for file in (predictions, nbest, null_odds) if file]
    for each in answers:
        contents = [each.text(threshold), each.n_best(), each.null_score]
        for file, content in zip(files, contents, strict=False):
            file.write(",\n" if count else "{\n")
            # The members of an object, without its braces.
            text = json.dumps({each.id: content}, indent=4)
            file.write(text[len("{\n") : -len("\n}")])
        count += 1
    for file in files:
        file.write("\n}\n" if count else "{}\n")
    return count
