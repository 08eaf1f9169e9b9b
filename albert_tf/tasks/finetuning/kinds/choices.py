"""Which of several options answers a question about a passage."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from albert_tf.data.features.choices import choice_features
from albert_tf.data.features.rows_builder import RowsBuilder
from albert_tf.errors import InputError
from albert_tf.metrics.classification import classification_metrics
from albert_tf.models.inputs import ENCODER_INPUTS
from albert_tf.models.multiple_choice import AlbertMultipleChoice
from albert_tf.tasks.ensembles import average_probabilities
from albert_tf.tasks.finetuning.kinds.base import Prepared, TaskKind
from albert_tf.tasks.finetuning.kinds.texts import label_scores, softmax
from albert_tf.tasks.finetuning.losses import LABELS, LabelTask


class Choices(TaskKind):
    """Questions with options; a prediction is float64 probabilities of them.

    Settings: `max_seq_length` and `max_qa_length`, see `choice_features`.
    """

    model_class = AlbertMultipleChoice

    def model_arguments(self):
        """Returns nothing: no weight depends on the number of options."""
        return {}

    def training_task(self):
        """Returns the loss."""
        return LabelTask()

    def training_rows(self, examples):
        """Returns a row for each option; see the base class.

        Raises:
          InputError: questions have different numbers of options, too.
        """
        builder, labels, count = None, [], 0
        examples = list(examples)
        for example, features in zip(
            examples, self._features(examples), strict=True
        ):
            if builder is None:
                count = len(features.ids)
                builder = RowsBuilder(
                    pad_id=self.tokenizer.pad_id, rows_per_example=count
                )
            if len(features.ids) != count:
                raise InputError(
                    f"{example.place}: {len(features.ids)} options, but the "
                    f"questions before have {count}; train on one number only"
                )
            if features.label is None:
                raise InputError(f"{example.place}: no label")
            for ids, types in zip(features.ids, features.types, strict=True):
                builder.append(ids, types)
            labels.append(features.label)
        builder = builder or RowsBuilder(pad_id=self.tokenizer.pad_id)
        return builder.build(**{LABELS: np.array(labels, np.int32)})

    def prepare(self, examples):
        """Returns a row for each option; examples may differ in their number.

        Each row is an example of `rows`, so that they can be sorted by length.
        """
        builder = RowsBuilder(pad_id=self.tokenizer.pad_id)
        for features in self._features(examples):
            for ids, types in zip(features.ids, features.types, strict=True):
                builder.append(ids, types)
        return Prepared(examples=examples, rows=builder.build())

    def forward(self, model, batch):
        """Returns `logits` `[batch]` of options, each by itself."""
        inputs = {name: batch[name][:, None] for name in ENCODER_INPUTS}
        return {"logits": model(inputs)[:, 0]}

    def predictions(self, prepared, outputs):
        """Returns the probabilities of the options, float64 `[options]`."""
        logits = iter([output["logits"] for output in outputs])
        return [
            softmax(np.array([next(logits) for _ in example.options]))
            for example in prepared.examples
        ]

    def average(self, members):
        """Returns the means of the probabilities."""
        names = list(members)
        return [
            average_probabilities(dict(zip(names, group, strict=True)))
            for group in zip(*members.values(), strict=True)
        ]

    def scores(self, examples, predictions):
        """Returns the accuracy, of each group too, and the cross-entropy."""
        labels = [example.label for example in examples]
        scores = label_scores(self.description.metrics, predictions, labels)
        groups = defaultdict(list)
        for place, example in enumerate(examples):
            if example.group is not None:
                groups[example.group].append(place)
        for group, places in sorted(groups.items()):
            part = label_scores(
                ("accuracy",),
                [predictions[place] for place in places],
                [labels[place] for place in places],
            )
            scores[f"accuracy_{group}"] = part["accuracy"]
        return scores

    def check_scores(self, examples):
        """Scores the labels themselves; see the base class."""
        labels = [example.label for example in examples]
        classification_metrics(self.description.metrics, labels, labels)

    def record(self, example, prediction):
        """Returns the best option, from 0, its text, and all probabilities."""
        best = int(np.argmax(prediction))
        return {
            "id": example.id,
            "label": best,
            "option": example.options[best],
            "probabilities": [float(x) for x in prediction],
        }

    def _features(self, examples):
        return choice_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            max_qa_length=self.description.settings["max_qa_length"],
        )
