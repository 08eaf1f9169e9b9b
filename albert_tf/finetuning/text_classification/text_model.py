"""Classifiers of texts and pairs of texts."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError
from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.text_classification.examples import (
    config_of_texts,
    text_task_from_columns,
)
from albert_tf.text.base_tokenizer import Tokenizer


class TextModel(LabelHeadModel):
    """A `LabelHeadModel` of texts, or pairs: a tuple `(first, second)`.

    Labels are integers or names of `labels`, or numbers.
    """

    TASK_TYPES = ("text_classification", "regression")
    NUM_TEXTS = (1, 2)
    # Value of the task's setting `head`.
    TASK_HEAD: str

    def _default_settings(self):
        # As in `TextTaskType.optional_settings`.
        return {} if self.TASK_HEAD == "cls" else {"head": self.TASK_HEAD}

    def _task(self, num_texts: int) -> TaskConfig:
        """Returns the task of one or two texts to train for."""
        old = self.task_config
        pairs = num_texts == 2
        if old is not None and pairs == (old.source.get("pair") is not None):
            return dataclasses.replace(old, scores={}, baselines={})
        columns: dict[str, str | int] = {"text": "text", "label": "label"}
        if pairs:
            columns["pair"] = "pair"
        is_number = self.num_labels == 1
        task = text_task_from_columns(
            [],
            columns,
            classes=None if is_number else self.label_names,
            number=is_number,
        )
        name = "regression" if is_number else "text_classification"
        task = config_of_texts(task, name, self._settings)
        self.labels = task.labels
        return task

    def _check_texts(self, num_texts: int) -> Tokenizer:
        tokenizer = super()._check_texts(num_texts)
        pairs = self.TASK_HEAD != "cls"
        if self.task_config is not None:
            pairs = self.task_config.source.get("pair") is not None
        elif not pairs:
            return tokenizer
        if pairs != (num_texts == 2):
            takes = "two texts: a tuple (first, second)"
            raise InputError(
                f"{type(self).__name__} takes "
                + (takes if pairs else "one text, not two")
                + ", as its task has them"
            )
        return tokenizer

    def _targets(self, y):
        return self._label_ids(y)
