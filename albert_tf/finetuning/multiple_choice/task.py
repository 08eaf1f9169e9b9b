"""Task type of multiple choice: questions with answer options."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.library_datasets import numbered_rows
from albert_tf.finetuning.metrics import (
    classification_metrics,
    label_scores,
    softmax,
)
from albert_tf.finetuning.multiple_choice.examples import (
    DEFAULT_SETTINGS,
    DREAM,
    GROUPS,
    RACE,
    MultipleChoiceExample,
    race_examples,
    read_dream,
    read_race,
)
from albert_tf.finetuning.task_type import TaskType


class MultipleChoice(TaskType):
    """Questions with options.

    A prediction is the probabilities of the options, float64 `[options]`.
    Settings: `max_seq_length` and `max_qa_length`, see `choice_features`.
    """

    name = "multiple_choice"
    loss_settings = ("label_smoothing",)
    default_settings: ClassVar = DEFAULT_SETTINGS
    known_tasks = (RACE, DREAM)
    custom_metrics = False

    @property
    def serving_forms(self):
        """Exports take `context`, `question` and `options` of equal number."""
        return {"serving_default": {"context": 1, "question": 1, "options": 2}}

    @property
    def max_qa_length(self) -> int:
        """Maximum number of pieces of question and option."""
        return self.task_config.settings["max_qa_length"]

    def check_settings(self):
        """Checks that question and option fit into a sequence."""
        if not 1 <= self.max_qa_length <= self.max_seq_length - 3:
            raise InputError(
                f"max_qa_length={self.max_qa_length} must be at least 1, and "
                "with [CLS], [SEP] and [SEP] at most max_seq_length="
                f"{self.max_seq_length}"
            )

    def read_examples(self, source, *, bad, labelled, training=False):
        """Reads RACE or DREAM. A library has RACE, a dataset per group."""
        if isinstance(source, list):
            passages = (
                (location, group, row)
                for group, dataset in zip(GROUPS, source, strict=True)
                for location, row in numbered_rows(dataset)
            )
            return race_examples(passages, "race", bad=bad, labelled=labelled)
        readers = {"race": read_race, "dream": read_dream}
        reader = self.task_config.source.get("reader")
        if reader not in tuple(readers):  # It may be of any type.
            raise InputError(
                f"source of {self.task_config.name}: reader={reader!r} must be "
                f"one of {', '.join(readers)}"
            )
        return readers[reader](source, bad=bad, labelled=labelled)

    def example(self, texts, id, location):
        """Makes an example from `context`, `question` and `options`."""
        if len(texts["options"]) < 2:
            raise InputError("options: give two or more")
        return MultipleChoiceExample(
            id=id,
            passage=texts["context"],
            question=texts["question"],
            options=tuple(texts["options"]),
            location=location,
        )

    @property
    def model_class(self):
        """`AlbertMultipleChoice`."""
        from albert_tf.finetuning.multiple_choice import model

        return model.AlbertMultipleChoice

    def make_loss(self, **settings):
        """Returns the cross-entropy of the options."""
        from albert_tf.finetuning.losses import CrossEntropyLoss

        return CrossEntropyLoss(**settings)

    def features(self, examples, *, labelled):
        """Returns a sequence for each option; see `choice_features`."""
        from albert_tf.finetuning.multiple_choice import features

        return features.choice_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            max_qa_length=self.max_qa_length,
            labelled=labelled,
        )

    def forward(self, model, batch):
        """Returns the `logits` `[batch]` of options."""
        inputs = {name: batch[name][:, None] for name in self.model_inputs}
        return {"logits": model(inputs)[:, 0]}

    def predictions(self, examples, features, outputs):
        """Returns the probabilities of the options, float64 `[options]`."""
        logits = iter([output["logits"] for output in outputs])
        return [
            softmax(np.array([next(logits) for _ in example.options]))
            for example in examples
        ]

    def scores(self, examples, predictions):
        """Returns the accuracy, overall and by group, and the cross-entropy."""
        labels = [example.label for example in examples]
        scores = label_scores(self.task_config.metrics, predictions, labels)
        groups = defaultdict(list)
        for index, example in enumerate(examples):
            if example.group is not None:
                groups[example.group].append(index)
        for group, indices in sorted(groups.items()):
            group_scores = label_scores(
                ("accuracy",),
                [predictions[i] for i in indices],
                [labels[i] for i in indices],
            )
            scores[f"accuracy_{group}"] = group_scores["accuracy"]
        return scores

    def check_scores(self, examples):
        """Checks the metrics by scoring the labels themselves."""
        labels = [example.label for example in examples]
        classification_metrics(self.task_config.metrics, labels, labels)

    def baselines(self, training, examples, word_embeddings=None):
        """Returns the scores of the most frequent position, and of chance."""
        counts = Counter(x.label for x in training)
        ranked = [position for position, _ in counts.most_common()]
        guesses = [
            # Questions may have fewer options than those for training.
            next((x for x in ranked if x < len(example.options)), 0)
            for example in examples
        ]
        labels = [example.label for example in examples]
        metrics = self.task_config.metrics
        chance = float(np.mean([1 / len(x.options) for x in examples]))
        return {
            "most frequent position": classification_metrics(
                metrics, guesses, labels
            ),
            "chance": {"accuracy": chance},
        }

    def record(self, example, prediction):
        """Returns index and text of the best option, and all probabilities."""
        best = int(np.argmax(prediction))
        return {
            "id": example.id,
            "label": best,
            "option": example.options[best],
            "probabilities": [float(x) for x in prediction],
        }

    def serve(self, preprocessor, model, inputs):
        """Returns `logits` and `probabilities` of options, and the `choice`.

        The first two are float32 `[batch, choices]`, the index of the most
        likely option int32 `[batch]`.
        """
        import tensorflow as tf

        from albert_tf.finetuning.multiple_choice import features
        from albert_tf.tensor_ops import TensorOps

        shape = tf.shape(inputs["options"])  # [batch, choices]
        questions = tf.range(shape[0])
        for name in ("context", "question"):
            questions = TensorOps().check_sizes(
                questions,
                inputs[name],
                f"{name} must have as many texts as options has rows",
            )
        sequences = features.choice_sequences(
            preprocessor,
            inputs["context"],
            inputs["question"],
            tf.reshape(inputs["options"], [shape[0] * shape[1]]),
            example=tf.repeat(questions, shape[1]),
            max_seq_length=self.max_seq_length,
            max_qa_length=self.max_qa_length,
        )
        shape = tf.concat([shape, tf.shape(sequences["input_mask"])[1:]], 0)
        logits = model({n: tf.reshape(x, shape) for n, x in sequences.items()})
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "choice": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }
