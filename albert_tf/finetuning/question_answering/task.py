"""Task type of question answering: answers are spans of a context."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
    read_squad,
    read_squad_rows,
    right_answers,
)
from albert_tf.finetuning.question_answering.features import (
    P_MASK,
    window_batches,
    window_features,
)
from albert_tf.finetuning.question_answering.metrics import (
    RULES,
    answer_baselines,
    best_threshold,
)
from albert_tf.finetuning.question_answering.settings import (
    CMRC,
    DEFAULT_SETTINGS,
    SQUAD_1,
    SQUAD_2,
    WindowSettings,
    least_length,
)
from albert_tf.finetuning.task_type import TaskType
from albert_tf.text.packing import ENCODER_INPUTS


class QuestionAnswering(TaskType):
    """Questions whose answers are spans of a context.

    A prediction is an `AnswerPrediction`. Settings: those of `WindowSettings`;
    `head`, `start_n_top` and `end_n_top` of `AlbertQuestionAnswering`;
    `n_best` and `max_answer_length` of `answer_questions`; `rules`, a key of
    `RULES`; and `null_threshold`, see `QuestionAnswers.text`.
    """

    name = "question_answering"
    known_tasks = (SQUAD_1, SQUAD_2, CMRC)
    default_settings: ClassVar = DEFAULT_SETTINGS
    custom_metrics = False
    perfect_score = 100.0

    @property
    def serving_forms(self):
        """Exports take `question` and `context` `[batch]`."""
        return {"serving_default": {"question": 1, "context": 1}}

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
        needs = f"requires head=joint; head={self._head} does not predict "
        needs += "whether there is an answer"
        if self._impossible:
            raise InputError(f"the task {self.task_config.name} {needs}")
        if self.null_threshold is not None:
            raise InputError(f"null_threshold={self.null_threshold} {needs}")

    def read_examples(self, source, *, bad, labelled, training=False):
        """Reads the questions of a file, see `read_squad`, or a dataset."""
        needs: dict[str, Any] = {
            "labelled": labelled,
            "need_positions": training,
        }
        if isinstance(source, list):
            [dataset] = source
            needs["impossible"] = self._impossible
            return read_squad_rows(dataset, bad=bad, **needs)
        # 200 of CMRC's answers are not at their offset.
        needs["repair_offsets"] = (
            self.task_config.source.get("reader") == "cmrc"
        )
        return self._checked(read_squad(source, bad=bad, **needs), bad)

    def _checked(self, examples, bad):
        """Yields examples; without an answer, only where the task has them."""
        for example in examples:
            if example.is_impossible and not self._impossible:
                bad.report(
                    example.location,
                    "is_impossible, but all questions of the task "
                    f"{self.task_config.name} have an answer; use squad2.0, "
                    "or remove the question",
                )
            else:
                yield example

    def example(self, texts, id, location):
        """Makes an example from `question` and `context`."""
        for name, text in texts.items():
            if not text.strip():
                raise InputError(f"the {name} is empty")
        return QuestionAnsweringExample(id=id, location=location, **texts)

    @property
    def model_class(self):
        """`AlbertQuestionAnswering`."""
        from albert_tf.finetuning.question_answering import model

        return model.AlbertQuestionAnswering

    def model_arguments(self):
        """Returns the head and the number of its candidates."""
        names = ("head", "start_n_top", "end_n_top")
        return {name: self.task_config.settings[name] for name in names}

    def make_loss(self, **settings):
        """Returns the loss of the head."""
        from albert_tf.finetuning.question_answering import model

        return model.JointSpanLoss() if self._joint else model.SpanLoss()

    def features(self, examples, *, labelled):
        """Returns windows; `metadata` lists those of each question.

        With labels, they have the positions of the first answers.
        """
        batches = window_batches(
            examples, self.tokenizer, self.window_settings, labelled=labelled
        )
        return window_features(
            batches,
            pad_id=self.tokenizer.pad_id,
            head=self._head,
            labelled=labelled,
        )

    @property
    def model_inputs(self):
        """The encoder's inputs, and `p_mask` for the joint head."""
        return (*ENCODER_INPUTS, P_MASK) if self._joint else ENCODER_INPUTS

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
        from albert_tf.finetuning.question_answering import answers

        outputs = iter(outputs)
        return self._decode(
            [
                answers.QuestionScores(
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
        """Returns the answers for the averaged scores; see `combine_scores`."""
        from albert_tf.finetuning.question_answering import answers

        scores = answers.combine_scores(
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

    def tune(self, examples, predictions):
        """Returns the best null threshold for the examples, for SQuAD 2.0."""
        if not self._impossible:
            return {}
        answers = [prediction.answers for prediction in predictions]
        threshold = best_threshold(
            right_answers(examples),
            {x.id: x.text() for x in answers},
            {x.id: x.null_score for x in answers},
        )
        return {"null_threshold": threshold}

    def scores(self, examples, predictions):
        """Returns exact match and F1 in percent, by the rules of the task.

        The null threshold is applied and, if there is one, returned, too.
        """
        threshold = self.null_threshold
        answers = {x.answers.id: x.answers.text(threshold) for x in predictions}
        scores = RULES[self._rules](right_answers(examples), answers)
        scores = {"f1": scores["f1"], **scores}
        if threshold is not None:
            scores["null_threshold"] = threshold
        return scores

    def check_scores(self, examples):
        """Checks the rules by scoring no predictions."""
        RULES[self._rules](right_answers(examples), {})

    def baselines(self, training, examples, word_embeddings=None):
        """Returns the scores of `answer_baselines`."""
        return answer_baselines(
            examples,
            functools.partial(RULES[self._rules], right_answers(examples)),
            metrics=self.task_config.metrics,
            impossible=self._impossible,
        )

    def record(self, example, prediction):
        """Returns the answer ("" for none), and the list of best answers."""
        answers = prediction.answers
        answer = answers.text(self.null_threshold)
        record = {"id": example.id, "answer": answer}
        if answers.null_score is not None:
            record["null_score"] = answers.null_score
        return record | {"best": answers.n_best()}

    def serve(self, preprocessor, model, inputs):
        """Returns answers; see `serve_answers`."""
        from albert_tf.finetuning.question_answering import serving

        return serving.serve_answers(self, preprocessor, model, inputs)

    def served(self, prediction):
        """Returns the answer and its probability."""
        answers = prediction.answers
        outputs = {
            "answer": answers.text(self.null_threshold),
            "probability": answers.best[0].probability,
        }
        if self._joint:
            outputs["null_odds"] = answers.null_score
        return outputs

    @property
    def null_threshold(self) -> float | None:
        """Maximum null score of an answered question; None if all are.

        In tasks with unanswerable questions, one that was not tuned is 0: the
        question is more likely to have no answer.
        """
        threshold = self.task_config.settings["null_threshold"]
        return 0.0 if threshold is None and self._impossible else threshold

    @property
    def _impossible(self) -> bool:
        return self._rules == "squad2.0"

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
        return WindowSettings.of_task(self.task_config.settings)

    def _pad_to_candidates(self, batch):
        """Pads a batch to the number of candidates of the joint head."""
        import tensorflow as tf

        minimum = least_length(self.task_config.settings)
        missing = tf.maximum(minimum - tf.shape(batch["input_mask"])[1], 0)
        padding = [[0, 0], [0, missing]]
        return {
            name: tf.pad(x, padding, constant_values=int(name == P_MASK))
            for name, x in batch.items()
        }
