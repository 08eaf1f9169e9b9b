"""Decoding of answers from the model's scores, and the original's files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering import decoder
from albert_tf.finetuning.question_answering.contexts import Contexts

if TYPE_CHECKING:
    from albert_tf.finetuning.question_answering.features import SpanWindow

# Outputs of the model for a window, see `AlbertQuestionAnswering`.
Outputs = Mapping[str, np.ndarray]

# The original's start and end score if no span is valid, such as in a context
# without pieces; and its answer, in its files.
NO_SPAN_SCORE = {"v1": 0.0, "joint": -1e6}
_NO_SPAN_TEXT = "empty"  # of the v1 head; "" of the joint head


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerText:
    """One of the best answers to a question.

    Attributes:
      text: Text of the answer, without surrounding white space.
      start: Start in the context, in characters; None, like `end`, if the text
        is not part of the context.
      end: End in the context.
      probability: Softmax of the scores of the best answers; 0 without one.
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
    """Best answers of a model or ensemble to a question.

    Attributes:
      id: Question ID.
      best: At least one answer, best first, with different texts. If no span
        is valid, it is "", of probability 0.
      null_score: Logit of the question being unanswerable; None for the v1
        head.
    """

    id: str
    best: tuple[AnswerText, ...]
    null_score: float | None

    def text(self, threshold: float | None = None) -> str:
        """Returns the best answer, or "" if the null score is too high.

        A threshold of None always answers. The v1 head has no null scores.
        """
        score = self.null_score
        if threshold is not None and score is not None and score > threshold:
            return ""
        return self.best[0].text

    def prediction(self, threshold: float | None = None) -> str:
        """Returns `text` as in the original's `predictions.json`."""
        return self._in_files(self.text(threshold))

    @property
    def has_no_span(self) -> bool:
        """Whether no span is valid."""
        return self.best[0].start is None

    def _in_files(self, text: str) -> str:
        is_v1 = self.null_score is None
        return _NO_SPAN_TEXT if is_v1 and self.has_no_span else text

    def n_best(self) -> list[dict[str, Any]]:
        """Returns the best answers under the original's names."""
        return [
            {
                "text": answer.text,
                "probability": answer.probability,
                "start_log_prob": answer.start_score,
                "end_log_prob": answer.end_score,
            }
            for answer in self.best
        ]

    def n_best_predictions(self) -> list[dict[str, Any]]:
        """Returns `n_best` as in the original's `nbest_predictions.json`."""
        best = self.n_best()
        if self.has_no_span:
            text = self._in_files(best[0]["text"])
            return [best[0] | {"text": text, "probability": 1.0}]
        return best


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QuestionScores:
    """Outputs of one or several models for all windows of a question.

    `members` has the outputs for each window, which may be padded, for each
    model.
    """

    id: str
    context: str
    windows: Sequence[SpanWindow]
    members: Sequence[Sequence[Outputs]]


class AnswerPrediction(NamedTuple):
    """Scores of a question's windows, and the answers decoded from them."""

    scores: QuestionScores
    answers: QuestionAnswers


# Number of questions that are decoded at a time.
_BATCH = 256


def answer_questions(
    questions: Sequence[QuestionScores],
    *,
    n_best: int = 20,
    max_answer_length: int = 30,
) -> list[QuestionAnswers]:
    """Decodes the scores of questions.

    Scores of several models are averaged, see `best_answers`.

    Args:
      questions: Scores of the same models, all with the same head.
      n_best: Maximum number of answers to a question; for the v1 head also the
        number of start and end candidates in each window.
      max_answer_length: Maximum length of an answer in pieces.
    """
    answers = []
    # The decoder processes strings and small integers, not for accelerators.
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

    pieces = decoder.WindowPieces(
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
    lengths = [window.length for window in windows]
    members = [
        _best_positions(
            [row for member in rows for row in member], lengths, n_best
        )
        for rows in zip(*(q.members for q in questions), strict=True)
    ]
    best, null = _decode(
        pieces,
        members,
        tf.constant([q.context for q in questions], tf.string),
        n_best=n_best,
        max_answer_length=max_answer_length,
    )
    head = "joint" if decoder.NULL_SCORE in members[0] else "v1"
    score = NO_SPAN_SCORE[head]
    no_span = AnswerText(
        text="",
        start=None,
        end=None,
        probability=0.0,
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
            [None] * len(questions) if null is None else null.numpy().tolist(),
            *(values.to_list() for values in best),
            strict=True,
        )
    ]


# As a graph, one question takes a third of the time.
@tf.function(autograph=False, reduce_retracing=True)
def _decode(
    pieces: decoder.WindowPieces,
    members: Sequence[dict[str, tf.Tensor]],
    texts: tf.Tensor,
    *,
    n_best: int,
    max_answer_length: int,
) -> tuple[decoder.BestAnswers, tf.Tensor | None]:
    """Returns the best answers, and the null scores, of each context."""
    count = tf.size(texts, tf.int64)
    best = decoder.best_answers(
        pieces,
        members,
        Contexts(texts),
        tf.range(count),
        n_best=n_best,
        max_answer_length=max_answer_length,
    )
    return best, decoder.null_scores(pieces, members, count)


def _best_positions(
    rows: Sequence[Outputs], lengths: Sequence[int], n_best: int
) -> dict[str, tf.Tensor]:
    """Pads the outputs of windows and returns their best positions."""
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
    return decoder.best_positions(outputs, input_mask, min(n_best, longest))


def combine_scores(
    members: Mapping[str, Sequence[QuestionScores]],
) -> list[QuestionScores]:
    """Combines the scores of the models of an ensemble, by their paths.

    Raises:
      InputError: if the models have different heads, tokenizers or lengths.
    """
    first_name, *names = members
    combined = []
    for first, *others in zip(*members.values(), strict=True):
        for name, other in zip(names, others, strict=True):
            models = f"ensemble: {first_name} and {name}"
            if not _same_windows(first.windows, other.windows):
                raise InputError(
                    f"{models} cut question {first.id} into different windows; "
                    "use models with the same vocabulary, max_seq_length, "
                    "doc_stride and max_query_length"
                )
            if first.members[0][0].keys() != other.members[0][0].keys():
                raise InputError(
                    f"{models} have different heads; use models with the same "
                    "head"
                )
        outputs = [rows for each in (first, *others) for rows in each.members]
        combined.append(dataclasses.replace(first, members=outputs))
    return combined


def _same_windows(
    windows: Sequence[SpanWindow], others: Sequence[SpanWindow]
) -> bool:
    return len(windows) == len(others) and all(
        a.first_context_token == b.first_context_token
        and np.array_equal(a.starts, b.starts)
        and np.array_equal(a.ends, b.ends)
        for a, b in zip(windows, others, strict=True)
    )


class AnswerFiles(contextlib.AbstractContextManager):
    """Writes the original's files, a few questions at a time.

    Args:
      files: Open files of the answers (`predictions.json`), of the best answers
        (`nbest_predictions.json`) and, for the joint head, of the null scores
        (`null_odds.json`).
      threshold: See `QuestionAnswers.text`.
    """

    def __init__(self, files: Sequence[TextIO], threshold: float | None = None):
        self._files = files
        self._threshold = threshold
        self._is_empty = True

    def write(self, answers: Iterable[QuestionAnswers]) -> None:
        """Appends the answers to some questions."""
        for each in answers:
            contents = [
                each.prediction(self._threshold),
                each.n_best_predictions(),
                each.null_score,
            ]
            for file, content in zip(self._files, contents, strict=False):
                file.write("{\n" if self._is_empty else ",\n")
                # An item of the object, without braces.
                text = json.dumps({each.id: content}, indent=4)
                file.write(text[len("{\n") : -len("\n}")])
            self._is_empty = False

    def __exit__(self, *error: object) -> None:
        """Ends the files."""
        for file in self._files:
            file.write("{}\n" if self._is_empty else "\n}\n")
