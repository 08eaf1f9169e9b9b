"""Task type of question answering: answers are spans of a context."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from typing import ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import INPUTS
from albert_tf.finetuning.question_answering.baselines import (
    answer_baselines,
)
from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
    read_squad,
    read_squad_rows,
    right_answers,
)
from albert_tf.finetuning.question_answering.features import (
    P_MASK,
    WindowSettings,
    question_windows,
    window_features,
)
from albert_tf.finetuning.question_answering.known_tasks import (
    CMRC,
    DEFAULT_SETTINGS,
    SQUAD_1,
    SQUAD_2,
)
from albert_tf.finetuning.question_answering.metrics import (
    RULES,
    best_thresholds,
)
from albert_tf.finetuning.task_type import TaskType


class QuestionAnswering(TaskType):
    """Questions whose answers are spans of a context.

    A prediction is an `AnswerPrediction`. Settings: those of `WindowSettings`;
    `head`, `start_n_top` and `end_n_top` of `AlbertQuestionAnswering`;
    `n_best` and `max_answer_length` of `answer_questions`; `rules`, a key of
    `RULES`; and `null_threshold`, see `QuestionAnswers.text`.
    """

    name = "question_answering"
    default_settings: ClassVar = DEFAULT_SETTINGS
    custom_metrics = False
    perfect_score = 100.0

    @classmethod
    def known_tasks(cls):
        """Returns SQuAD 1.1 and 2.0 and CMRC 2018."""
        return SQUAD_1, SQUAD_2, CMRC

    def check_settings(self):
        """Checks the lengths, and whether null scores require a joint head."""
        _ = self.window_settings  # Raises an error if lengths are not valid.
        if self._joint:
            return
        if self._head != "v1":
            raise InputError(
                f"head={self._head}: tasks of the type {self.name} have v1 and "
                "joint"
            )
        problem = (
            f"head={self._head} does not predict whether there is an answer"
        )
        if self._rules == "squad2.0":
            raise InputError(
                f"the task {self.task_config.name} requires head=joint; "
                f"{problem}"
            )
        if self.null_threshold is not None:
            raise InputError(
                f"null_threshold={self.null_threshold} requires head=joint; "
                f"{problem}"
            )

    def read_examples(self, path, *, bad, labelled, training=False):
        """Reads the questions of a file; see `read_squad`."""
        return read_squad(
            path,
            bad=bad,
            labelled=labelled,
            need_positions=training,
            # 200 of CMRC's answers are not at their offset.
            repair_offsets=self.task_config.source.get("reader") == "cmrc",
        )

    def read_dataset(self, datasets, *, bad, labelled, training=False):
        """Reads a dataset of SQuAD."""
        [dataset] = datasets
        return read_squad_rows(
            dataset,
            impossible=self._rules == "squad2.0",
            bad=bad,
            labelled=labelled,
            need_positions=training,
        )

    def example_from_fields(self, fields, id):
        """Makes an example from `question` and `context`."""
        if set(fields) != {"question", "context"}:
            return super().example_from_fields(fields, id)
        for name, text in fields.items():
            if not text.strip():
                raise InputError(f"the {name} is empty")
        return QuestionAnsweringExample(id=id, location="", **fields)

    @property
    def model_class(self):
        """`AlbertQuestionAnswering`."""
        from albert_tf.finetuning.question_answering.model import (
            AlbertQuestionAnswering,
        )

        return AlbertQuestionAnswering

    def model_arguments(self):
        """Returns the head and the number of its candidates."""
        names = ("head", "start_n_top", "end_n_top")
        return {name: self.task_config.settings[name] for name in names}

    def make_loss(self, **settings):
        """Returns the loss of the head."""
        from albert_tf.finetuning.question_answering.losses import (
            JointSpanLoss,
            SpanLoss,
        )

        return JointSpanLoss() if self._joint else SpanLoss()

    def features(self, examples, *, labelled):
        """Returns windows; `metadata` lists those of each question.

        With labels, they have the positions of the first answers.
        """
        windows = question_windows(
            examples, self.tokenizer, self.window_settings, labelled=labelled
        )
        return window_features(
            windows,
            pad_id=self.tokenizer.pad_id,
            head=self._head,
            labelled=labelled,
        )

    @property
    def model_inputs(self):
        """The encoder's inputs, and `p_mask` for the joint head."""
        return (*INPUTS, P_MASK) if self._joint else INPUTS

    def forward(self, model, batch):
        """Returns the model's outputs that the decoder needs."""
        inputs = {name: batch[name] for name in self.model_inputs}
        if not self._joint:
            return model(inputs)
        outputs = model(self._pad_to_candidates(inputs))
        return {
            name: value
            for name, value in outputs.items()
            if name not in ("start_log_probs", "end_log_probs")
        }

    def predictions(self, examples, features, outputs):
        """Returns the model's answers to each question."""
        from albert_tf.finetuning.question_answering.answers import (
            QuestionScores,
        )

        outputs = iter(outputs)
        return self._decode(
            [
                QuestionScores(
                    id=example.id,
                    context=example.context,
                    windows=windows,
                    members=[[next(outputs) for _ in windows]],
                )
                for example, windows in zip(
                    examples, features.metadata, strict=True
                )
            ]
        )

    def average(self, members):
        """Returns the answers for the averaged scores of the models.

        Raises:
          InputError: If the models have different heads, tokenizers or lengths.
        """
        from albert_tf.finetuning.question_answering.answers import (
            combine_scores,
        )

        scores = combine_scores(
            {
                name: [prediction.scores for prediction in predictions]
                for name, predictions in members.items()
            }
        )
        return self._decode(scores)

    def _decode(self, questions):
        from albert_tf.finetuning.question_answering import answers

        settings = self.task_config.settings
        decoded = answers.answer_questions(
            questions,
            n_best=settings["n_best"],
            max_answer_length=settings["max_answer_length"],
        )
        return list(map(answers.AnswerPrediction, questions, decoded))

    def scores(self, examples, predictions):
        """Returns exact match and F1 in percent, by the rules of the task.

        For SQuAD 2.0, the best null threshold for the examples is applied and
        returned, too.
        """
        right, threshold = right_answers(examples), None
        if self._rules == "squad2.0":
            answers = [prediction.answers for prediction in predictions]
            threshold = best_thresholds(
                right,
                {x.id: x.text() for x in answers},
                {x.id: x.null_score for x in answers},
            )["best_f1_thresh"]
        return self._scores_at(threshold, right, predictions)

    def written_scores(self, examples, predictions):
        """Returns the scores at the task's null threshold."""
        right = right_answers(examples)
        return self._scores_at(self.null_threshold, right, predictions)

    def _scores_at(self, threshold, right, predictions):
        answers = {x.answers.id: x.answers.text(threshold) for x in predictions}
        scores = RULES[self._rules](right, answers)
        scores = {"f1": scores["f1"], **scores}
        if threshold is not None:
            scores["null_threshold"] = threshold
        return scores

    def check_scores(self, examples):
        """Checks the rules by scoring no predictions."""
        RULES[self._rules](right_answers(examples), {})

    def baselines(self, training, examples):
        """Returns the scores of `answer_baselines`."""
        return answer_baselines(
            examples,
            functools.partial(RULES[self._rules], right_answers(examples)),
            metrics=self.task_config.metrics,
            impossible=self._rules == "squad2.0",
        )

    def with_scores(self, scores):
        """Returns the task, for SQuAD 2.0 with the best null threshold."""
        settings = dict(self.task_config.settings)
        if self._rules == "squad2.0":
            settings["null_threshold"] = scores["null_threshold"]
        return dataclasses.replace(self.task_config, settings=settings)

    def ensemble_config(self, members):
        """Returns the task with the mean threshold, as scores are averaged."""
        thresholds = {x.settings["null_threshold"] for x in members}
        if len(thresholds) == 1 or None in thresholds:
            return self.task_config
        mean = statistics.fmean(x.settings["null_threshold"] for x in members)
        return dataclasses.replace(
            self.task_config,
            settings={**self.task_config.settings, "null_threshold": mean},
        )

    def record(self, example, prediction):
        """Returns the answer ("" for none), and the list of best answers."""
        answers = prediction.answers
        answer = answers.text(self.null_threshold)
        record = {"id": example.id, "answer": answer}
        if answers.null_score is not None:
            record["null_score"] = answers.null_score
        return record | {"best": answers.n_best()}

    def has_label(self, example):
        """Returns whether an example has an answer or is impossible."""
        return bool(example.answers or example.is_impossible)

    @property
    def serving_forms(self):
        """Exports take `question` and `context` `[batch]`."""
        return {"serving_default": {"question": 1, "context": 1}}

    def serve(self, preprocessor, model, inputs):
        """Returns answers; see `serve_answers`."""
        from albert_tf.finetuning.question_answering.serving import (
            serve_answers,
        )

        return serve_answers(self, preprocessor, model, inputs)

    def sample_examples(self, texts):
        """Returns a question about each non-empty text."""
        contexts = [text for text in texts if text]
        return [
            QuestionAnsweringExample(
                id=str(i), location="", question=contexts[i - 1], context=text
            )
            for i, text in enumerate(contexts)
        ]

    def serving_arrays(self, examples, predictions):
        """Returns the questions, the answers and their probabilities."""
        answers = [prediction.answers for prediction in predictions]
        inputs = {
            "question": [x.question for x in examples],
            "context": [x.context for x in examples],
        }
        texts = [x.text(self.null_threshold) for x in answers]
        outputs = {
            "answer": np.char.encode(np.array(texts, str), "utf-8"),
            "probability": np.array([x.best[0].probability for x in answers]),
        }
        if self._joint:
            outputs["null_odds"] = np.array([x.null_score for x in answers])
        return inputs, outputs

    @property
    def null_threshold(self) -> float | None:
        """Maximum null score of an answered question; None if all are."""
        return self.task_config.settings["null_threshold"]

    @property
    def _rules(self) -> str:
        return self.task_config.settings["rules"]

    @property
    def _head(self) -> str:
        return self.task_config.settings["head"]

    @property
    def _joint(self) -> bool:
        return self._head == "joint"

    @property
    def window_settings(self) -> WindowSettings:
        """The lengths of windows."""
        fields = dataclasses.fields(WindowSettings)
        settings = self.task_config.settings
        return WindowSettings(**{x.name: settings[x.name] for x in fields})

    def _pad_to_candidates(self, batch):
        """Pads a batch to the number of candidates of the joint head."""
        import tensorflow as tf

        settings = self.task_config.settings
        minimum = max(settings["start_n_top"], settings["end_n_top"])
        missing = tf.maximum(minimum - tf.shape(batch["input_mask"])[1], 0)
        padding = [[0, 0], [0, missing]]
        return {
            name: tf.pad(x, padding, constant_values=int(name == P_MASK))
            for name, x in batch.items()
        }
