"""Task type of multiple choice: questions with answer options."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import (
    LABELS,
    FeaturesBuilder,
    batched,
    with_special_tokens,
)
from albert_tf.finetuning.library_datasets import (
    DatasetRows,
    field,
    numbered_rows,
)
from albert_tf.finetuning.multiple_choice.examples import (
    GROUPS,
    MultipleChoiceExample,
    race_examples,
    read_dream,
    read_race,
)
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
    label_scores,
    softmax,
)
from albert_tf.text.base_tokenizer import Tokenizer

# Number of questions that are tokenized at a time. Passages that they share are
# tokenized once.
_CHUNK = 256

# Characters that the tokenizer's normalization (NFKD) turns into low lines. The
# original looks for blanks after it.
_BLANKS = {
    code: "_" for code in (0xFE33, 0xFE34, 0xFE4D, 0xFE4E, 0xFE4F, 0xFF3F)
}


def choice_features(
    examples: Iterable[MultipleChoiceExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int = 512,
    max_qa_length: int = 128,
) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Tokenizes questions like the original (race_utils.py).

    Sequences are `[CLS] passage [SEP] question option [SEP]`. The option
    replaces each `_` of the question, or else is appended to it. Question and
    option are truncated to their last `max_qa_length` pieces, the passage to
    the first pieces that fit.

    Args:
      examples: the examples; may be an iterator.
      tokenizer: tokenizer of the model.
      max_seq_length: maximum length of a sequence.
      max_qa_length: maximum number of pieces of question and option, at most
        `max_seq_length - 3`.

    Yields:
      For each example, the ids and types of each option.
    """
    for chunk in batched(examples, _CHUNK):
        questions = [
            [_fill_in(example.question, option) for option in example.options]
            for example in chunk
        ]
        passages = list(dict.fromkeys(example.passage for example in chunk))
        passage_ids = tokenizer.encode(passages, max_length=max_seq_length)
        ids_of_passage = dict(zip(passages, passage_ids, strict=True))
        seconds = iter(
            tokenizer.encode(list(itertools.chain.from_iterable(questions)))
        )
        for example, options in zip(chunk, questions, strict=True):
            passage = ids_of_passage[example.passage]
            sequences = []
            for second in itertools.islice(seconds, len(options)):
                second = second[-max_qa_length:]
                first = passage[: max_seq_length - 3 - len(second)]
                sequences.append(with_special_tokens(tokenizer, first, second))
            yield sequences


def _fill_in(question: str, option: str) -> str:
    question, option = question.strip(), option.strip()
    filled = question.translate(_BLANKS)
    if "_" in filled:
        return filled.replace("_", option)
    return f"{question} {option}"


class MultipleChoice(TaskType):
    """Questions with options.

    A prediction is the probabilities of the options, float64 `[options]`.
    Settings: `max_seq_length` and `max_qa_length`, see `choice_features`.
    """

    name = "multiple_choice"
    loss_settings = ("label_smoothing",)
    default_settings: ClassVar = {"max_seq_length": 512, "max_qa_length": 128}
    custom_metrics = False

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

    @classmethod
    def known_tasks(cls):
        """Returns RACE and DREAM."""
        splits = ("train", "dev", "test")
        return tuple(
            TaskConfig(
                name=name,
                task_type=cls.name,
                metrics=("accuracy",),
                settings=cls.default_settings,
                source={
                    "reader": name,
                    "folder": folder,
                    "files": {split: split + ending for split in splits},
                },
            )
            for name, folder, ending in (
                ("race", "RACE", ""),
                ("dream", "dream", ".json"),
            )
        )

    def read_examples(self, path, *, bad, labelled, training=False):
        """Reads the questions of a file or folder of RACE or DREAM."""
        readers = {"race": read_race, "dream": read_dream}
        reader = self.task_config.source.get("reader")
        if reader not in tuple(readers):  # It may be of any type.
            raise InputError(
                f"source of {self.task_config.name}: reader={reader!r} must be "
                f"one of {', '.join(readers)}"
            )
        return readers[reader](path, bad=bad, labelled=labelled)

    def read_dataset(self, datasets, *, bad, labelled, training=False):
        """Reads RACE, which has one dataset for each group."""
        passages = (
            (location, group, row)
            for group, dataset in zip(GROUPS, datasets, strict=True)
            for location, row in _race_rows(dataset)
        )
        return race_examples(passages, "race", bad=bad, labelled=labelled)

    def example_from_fields(self, fields, id):
        """Makes an example from `context`, `question` and `options`."""
        if set(fields) != {"context", "question", "options"}:
            raise InputError(
                f"the task {self.task_config.name} takes context, question "
                f"and options, not {', '.join(fields)}"
            )
        if len(fields["options"]) < 2:
            raise InputError("options: give two or more")
        return MultipleChoiceExample(
            id=id,
            passage=fields["context"],
            question=fields["question"],
            options=tuple(fields["options"]),
            location="",
        )

    @property
    def model_class(self):
        """`AlbertMultipleChoice`."""
        from albert_tf.finetuning.multiple_choice.model import (
            AlbertMultipleChoice,
        )

        return AlbertMultipleChoice

    def model_arguments(self):
        """Returns {}: no weight depends on the number of options."""
        return {}

    def make_loss(self, **settings):
        """Returns the cross-entropy of the options."""
        from albert_tf.finetuning.losses import CrossEntropyLoss

        return CrossEntropyLoss(**settings)

    def training_features(self, examples):
        """Returns a sequence for each option, and labels.

        Raises:
          InputError: if a label is missing, or questions have different numbers
            of options.
        """
        examples = list(examples)
        count = len(examples[0].options) if examples else 1
        for example in examples:
            if len(example.options) != count:
                raise InputError(
                    f"{example.location}: {len(example.options)} options, but "
                    f"previous questions have {count}; the number must be the "
                    "same for training"
                )
            if example.label is None:
                raise InputError(f"{example.location}: no label")
        labels = np.array([example.label for example in examples], np.int32)
        builder = FeaturesBuilder(
            pad_id=self.tokenizer.pad_id, sequences_per_example=count
        )
        return self._build(builder, examples, **{LABELS: labels})

    def prediction_features(self, examples):
        """Returns a sequence for each option.

        Each sequence is a separate example of the features, so that questions
        may have different numbers of options.
        """
        return self._build(
            FeaturesBuilder(pad_id=self.tokenizer.pad_id), examples
        )

    def _build(self, builder, examples, **columns):
        for sequences in choice_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            max_qa_length=self.max_qa_length,
        ):
            for ids, types in sequences:
                builder.append(ids, types)
        return builder.build(**columns)

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

    def baselines(self, training, examples):
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

    def serving_graph(self, model, *, packed=True):
        """Returns `multiple_choice_graph` of the task."""
        from albert_tf.finetuning.multiple_choice.model import (
            multiple_choice_graph,
        )

        return multiple_choice_graph(self, model, packed)

    def sample_examples(self, texts):
        """Returns a question with three options about each text."""
        return [
            MultipleChoiceExample(
                id=str(i),
                location="",
                passage=text,
                question=texts[i - 1],
                options=(texts[i - 2], texts[i - 3], "_"),
            )
            for i, text in enumerate(texts)
        ]

    def serving_arrays(self, examples, predictions):
        """Returns the questions and the probabilities of their options."""
        inputs = {
            "context": [x.passage for x in examples],
            "question": [x.question for x in examples],
            "options": [list(x.options) for x in examples],
        }
        return inputs, {"probabilities": np.array(predictions)}


def _race_rows(dataset: DatasetRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields locations and rows, and numbers the questions of each passage."""
    questions: Counter[str] = Counter()
    for location, row in numbered_rows(dataset):
        name = field(dataset, row, "example_id")
        yield location, {"question_id": questions[name], **row}
        questions[name] += 1
