"""Answers to questions, as parts of a context."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.features.rows_builder import RowsBuilder
from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.data.features.span_window import SpanWindow
from albert_tf.data.features.spans import span_windows
from albert_tf.errors import InputError
from albert_tf.metrics.cmrc import cmrc
from albert_tf.metrics.null_threshold import best_thresholds
from albert_tf.metrics.squad import squad_v1, squad_v2
from albert_tf.models.inputs import ENCODER_INPUTS, P_MASK, START_POSITIONS
from albert_tf.models.span_labeler import AlbertSpanLabeler
from albert_tf.tasks.answers.answer_files import nbest_of
from albert_tf.tasks.answers.question_answers import (
    QuestionAnswers,
    answer_question,
)
from albert_tf.tasks.finetuning.kinds.base import Outputs, Prepared, TaskKind
from albert_tf.tasks.finetuning.span_losses import (
    END_POSITIONS,
    IS_IMPOSSIBLE,
    JointSpanTask,
    SpanTask,
)

# How answers are scored, by the name of the rules.
RULES = {"squad1.1": squad_v1, "squad2.0": squad_v2, "cmrc": cmrc}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SpanPrediction:
    """What one or several models say of the windows of a question.

    Attributes:
      id: of the question.
      context: what answers are cut from.
      windows: all of the question.
      members: for each model its outputs for each window.
      settings: of the decoding, see `answer_question`.
    """

    id: str
    context: str
    windows: Sequence[SpanWindow]
    members: Sequence[Sequence[Outputs]]
    settings: Mapping[str, int]

    @functools.cached_property
    def answers(self) -> QuestionAnswers:
        """The best answers, decoded when they are first asked for."""
        return answer_question(
            self.id, self.context, self.windows, self.members, **self.settings
        )


class Spans(TaskKind):
    """Questions about contexts; a prediction is a `SpanPrediction`.

    Settings: those of `SpanSettings`; `head`, of `AlbertSpanLabeler`;
    `start_n_top` and `end_n_top` for the joint one; `n_best` and
    `max_answer_length`, see `answer_question`; `rules`, one of `RULES`; and
    `null_threshold`, see `QuestionAnswers.text`.
    """

    model_class = AlbertSpanLabeler

    @property
    def token_outputs(self):
        """The v1 head's logits."""
        return () if self._joint else ("start_logits", "end_logits")

    def model_arguments(self):
        """Returns the head and how many spans it follows."""
        names = ("head", "start_n_top", "end_n_top")
        return {name: self.description.settings[name] for name in names}

    def training_task(self):
        """Returns the loss."""
        return JointSpanTask() if self._joint else SpanTask()

    def training_rows(self, examples):
        """Returns the windows with the positions of the first answers."""
        names = (START_POSITIONS, END_POSITIONS, IS_IMPOSSIBLE)
        labels: dict[str, list[int]] = {name: [] for name in names}
        builder = self._builder()
        for windows in self._windows(examples, labelled=True):
            self._append(builder, windows)
            for window in windows:
                labels[START_POSITIONS].append(window.start_position)
                labels[END_POSITIONS].append(window.end_position)
                labels[IS_IMPOSSIBLE].append(int(window.is_impossible))
        if not self._joint:
            del labels[IS_IMPOSSIBLE]
        return builder.build(
            **{n: np.array(x, np.int32) for n, x in labels.items()}
        )

    def prepare(self, examples):
        """Returns all windows; see the base class."""
        parts = list(self._windows(examples, labelled=False))
        builder = self._builder()
        for windows in parts:
            self._append(builder, windows)
        return Prepared(examples=examples, rows=builder.build(), parts=parts)

    def forward(self, model, batch):
        """Returns the model's outputs that answers are decoded from."""
        if not self._joint:
            return model({name: batch[name] for name in ENCODER_INPUTS})
        names = (*ENCODER_INPUTS, P_MASK)
        outputs = model(self._long_enough({n: batch[n] for n in names}))
        return {
            name: value
            for name, value in outputs.items()
            if name not in ("start_log_probs", "end_log_probs")
        }

    def predictions(self, prepared, outputs):
        """Returns what the model says of each question."""
        rows = iter(outputs)
        settings = self.description.settings
        names = ("n_best", "max_answer_length")
        return [
            SpanPrediction(
                id=example.id,
                context=example.context,
                windows=windows,
                members=[[next(rows) for _ in windows]],
                settings={name: settings[name] for name in names},
            )
            for example, windows in zip(
                prepared.examples, prepared.parts, strict=True
            )
        ]

    def average(self, members):
        """Returns predictions that have the outputs of all models.

        Raises:
          InputError: the models have different tokenizers or lengths.
        """
        names = list(members)
        averages = []
        for group in zip(*members.values(), strict=True):
            first = group[0]
            for name, other in zip(names, group, strict=True):
                if not _same_windows(first.windows, other.windows):
                    raise InputError(
                        f"ensemble: the windows of question {first.id} are not "
                        f"the same for {names[0]} and {name}; models that "
                        "answer together need one vocabulary, max_seq_length, "
                        "doc_stride and max_query_length"
                    )
            rows = [member for each in group for member in each.members]
            averages.append(dataclasses.replace(first, members=rows))
        return averages

    def scores(self, examples, predictions):
        """Returns exact match and F1 in percent, by the rules of the task.

        By those of SQuAD 2.0 also the best null threshold, with which the
        scores are: it is looked for on these examples, as is usual.
        """
        threshold = None
        if self._rules == "squad2.0":
            threshold = self._best_threshold(examples, predictions)
        texts = {p.id: p.answers.text(threshold) for p in predictions}
        scores = RULES[self._rules](_right_answers(examples), texts)
        scores = {"f1": scores["f1"], **scores}
        if threshold is not None:
            scores["null_threshold"] = threshold
        return scores

    def check_scores(self, examples):
        """Scores no predictions at all; see the base class."""
        RULES[self._rules](_right_answers(examples), {})

    def fitted(self, scores):
        """Returns the description with the null threshold, for SQuAD 2.0."""
        settings = dict(self.description.settings)
        if self._rules == "squad2.0":
            settings["null_threshold"] = scores["null_threshold"]
        return dataclasses.replace(self.description, settings=settings)

    def ensemble(self, members):
        """Returns ours with the mean of the null thresholds.

        As null scores are averaged, and so that the order does not matter.
        """
        thresholds = {x.settings["null_threshold"] for x in members}
        if len(thresholds) == 1 or None in thresholds:
            return self.description
        mean = statistics.fmean(x.settings["null_threshold"] for x in members)
        return dataclasses.replace(
            self.description,
            settings={**self.description.settings, "null_threshold": mean},
        )

    def record(self, example, prediction):
        """Returns the answer, "" for none, and the best ones."""
        answers = prediction.answers
        answer = answers.text(self.null_threshold)
        record = {"id": example.id, "answer": answer}
        if answers.null_score is not None:
            record["null_score"] = answers.null_score
        return record | {"best": nbest_of(answers)}

    def has_labels(self, examples):
        """Whether examples can be scored."""
        return all(x.answers or x.is_impossible for x in examples)

    @property
    def null_threshold(self) -> float | None:
        """From which null score on a question has no answer; None: none."""
        return self.description.settings["null_threshold"]

    @property
    def _rules(self) -> str:
        return self.description.settings["rules"]

    @property
    def _joint(self) -> bool:
        return self.description.settings["head"] == "joint"

    def _windows(self, examples, labelled):
        fields = dataclasses.fields(SpanSettings)
        settings = self.description.settings
        return span_windows(
            examples,
            self.tokenizer,
            SpanSettings(**{x.name: settings[x.name] for x in fields}),
            labelled=labelled,
        )

    def _builder(self) -> RowsBuilder:
        return RowsBuilder(
            pad_id=self.tokenizer.pad_id,
            token_padding={P_MASK: 1} if self._joint else {},
        )

    def _append(self, builder, windows) -> None:
        for window in windows:
            p_mask = {P_MASK: window.p_mask} if self._joint else {}
            builder.append(window.ids, window.types, **p_mask)

    def _long_enough(self, batch):
        """Pads a batch until there are as many positions as spans to follow."""
        settings = self.description.settings
        least = max(settings["start_n_top"], settings["end_n_top"])
        missing = tf.maximum(least - tf.shape(batch["input_mask"])[1], 0)
        padding = [[0, 0], [0, missing]]
        return {
            name: tf.pad(x, padding, constant_values=int(name == P_MASK))
            for name, x in batch.items()
        }

    def _best_threshold(self, examples, predictions) -> float:
        return best_thresholds(
            _right_answers(examples),
            {p.id: p.answers.text() for p in predictions},
            {p.id: p.answers.null_score for p in predictions},
        )["best_f1_thresh"]


def _right_answers(examples) -> dict[str, list[str]]:
    return {
        example.id: [answer.text for answer in example.answers]
        for example in examples
    }


def _same_windows(
    ours: Sequence[SpanWindow], theirs: Sequence[SpanWindow]
) -> bool:
    return len(ours) == len(theirs) and all(
        np.array_equal(a.ids, b.ids) for a, b in zip(ours, theirs, strict=True)
    )
