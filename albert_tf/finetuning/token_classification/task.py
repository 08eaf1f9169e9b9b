"""Task type of token classification: a label for each word."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.features import LABELS, FeaturesBuilder, batched
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.metrics import softmax
from albert_tf.finetuning.token_classification.baselines import (
    word_baselines,
)
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
    read_conll,
)
from albert_tf.finetuning.token_classification.metrics import sequence_metrics
from albert_tf.text.base_tokenizer import Tokenizer

# Label of tokens that the loss ignores.
IGNORED = -1

# Number of sentences that are tokenized at a time. Words that they share are
# tokenized once.
_CHUNK = 1024


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WordSequence:
    """`[CLS] pieces of words [SEP]`: a sentence, or as much of it as fits.

    Attributes:
      ids: token ids without padding.
      labels: token labels: the label of a word at its first piece, `IGNORED`
        elsewhere; empty in unlabelled sequences.
      first_pieces: position of the first piece of each word.
    """

    ids: list[int]
    labels: list[int]
    first_pieces: list[int]


def word_features(
    examples: Iterable[TokenClassificationExample],
    tokenizer: Tokenizer,
    *,
    max_seq_length: int,
    labels: Sequence[str] | None = None,
) -> Iterator[list[WordSequence]]:
    """Tokenizes sentences, and splits long ones into several sequences.

    Words are tokenized separately. A word without pieces, such as a control
    character, becomes the unknown piece. A word with more pieces than fit into
    a sequence is truncated. No word is split between sequences.

    Args:
      examples: the examples; may be an iterator.
      tokenizer: tokenizer of the model.
      max_seq_length: maximum length of a sequence.
      labels: names of the labels in the order of the model's outputs; None for
        unlabelled sequences.

    Yields:
      The sequences of each sentence; an empty list if it has no words.

    Raises:
      InputError: if labels are missing or not one of `labels`.
    """
    label_ids = None if labels is None else {x: i for i, x in enumerate(labels)}
    room = max_seq_length - 2
    for chunk in batched(examples, _CHUNK):
        words = dict.fromkeys(
            itertools.chain.from_iterable(example.words for example in chunk)
        )
        encoded = tokenizer.encode(list(words), max_length=room)
        pieces = {
            word: ids or [tokenizer.unk_id]
            for word, ids in zip(words, encoded, strict=True)
        }
        for example in chunk:
            yield _sequences(
                [pieces[word] for word in example.words],
                None if label_ids is None else _labels(example, label_ids),
                room,
                tokenizer,
            )


def values_of_words(
    sequences: Sequence[WordSequence], values: Sequence[np.ndarray]
) -> np.ndarray:
    """Gathers the predictions for the words of a sentence.

    Args:
      sequences: all sequences of the sentence.
      values: labels or probabilities of each sequence, `[tokens, ...]`, with or
        without padding.

    Returns:
      The value at each word's first piece, `[words, ...]`.
    """
    if not sequences:
        return np.zeros([0])
    return np.concatenate(
        [
            np.asarray(predicted)[sequence.first_pieces]
            for sequence, predicted in zip(sequences, values, strict=True)
        ]
    )


def _sequences(
    words: list[list[int]],
    labels: list[int] | None,
    room: int,
    tokenizer: Tokenizer,
) -> list[WordSequence]:
    """Splits a sentence, given as pieces and labels of words."""
    sequences = []
    begin = 0
    while begin < len(words):
        ids, first_pieces = [tokenizer.cls_id], []
        end = begin
        while end < len(words) and len(ids) + len(words[end]) <= room + 1:
            first_pieces.append(len(ids))
            ids += words[end]
            end += 1
        ids.append(tokenizer.sep_id)
        token_labels: list[int] = []
        if labels is not None:
            token_labels = [IGNORED] * len(ids)
            for position, label in zip(
                first_pieces, labels[begin:end], strict=True
            ):
                token_labels[position] = label
        sequences.append(
            WordSequence(
                ids=ids, labels=token_labels, first_pieces=first_pieces
            )
        )
        begin = end
    return sequences


def _labels(
    example: TokenClassificationExample, label_ids: dict[str, int]
) -> list[int]:
    """Returns the ids of an example's labels, or raises an `InputError`."""
    if example.labels is None:
        raise InputError(f"{example.location}: no labels")
    for label in example.labels:
        if label not in label_ids:
            raise InputError(
                f"{example.location}: label {label!r} is not one of "
                f"{', '.join(label_ids)}, the labels of the training files"
            )
    return [label_ids[label] for label in example.labels]


class TokenClassification(TaskType):
    """Labels for the words of sentences.

    A prediction is the probabilities of the labels, float64 `[words, labels]`.
    """

    name = "token_classification"
    loss_settings = ("class_weights", "label_smoothing")
    reads_lines = True
    token_outputs = ("logits",)

    @classmethod
    def known_tasks(cls):
        """Returns `ner`, with files in the format of CoNLL's shared tasks."""
        splits = ("train", "dev", "test")
        files = {name: f"{name}.txt" for name in splits}
        return (
            TaskConfig(
                name="ner",
                task_type=cls.name,
                metrics=("f1", "precision", "recall", "accuracy"),
                settings=cls.default_settings,
                source={"reader": "conll", "folder": "ner", "files": files},
            ),
        )

    def check_settings(self):
        """Checks that a sequence has room for one piece."""
        self.require_length(3)

    def learn_labels(self, examples):
        """Returns the task with the labels of the training examples."""
        labels = {label for x in examples for label in x.labels or ()}
        return dataclasses.replace(
            self.task_config, labels=tuple(sorted(labels))
        )

    def read_examples(self, path, *, bad, labelled, training=False):
        """Reads the sentences of a file; see `read_conll`."""
        return read_conll(path, bad=bad, labelled=labelled)

    def example_from_line(self, line, id, location):
        """Makes an example from words that are separated by white space."""
        return TokenClassificationExample(
            id=id, words=tuple(line.split()), location=location
        )

    def example_from_fields(self, fields, id):
        """Makes an example from the words of `text`."""
        if set(fields) != {"text"}:
            return super().example_from_fields(fields, id)
        return self.example_from_line(fields["text"], id, "")

    @property
    def model_class(self):
        """`AlbertTokenClassifier`."""
        from albert_tf.finetuning.token_classification.model import (
            AlbertTokenClassifier,
        )

        return AlbertTokenClassifier

    def model_arguments(self):
        """Returns the number of labels and their names."""
        return {"num_labels": len(self.labels), "labels": self.labels}

    def make_loss(self, **settings):
        """Returns the cross-entropy at the words' first pieces."""
        from albert_tf.finetuning.token_classification.model import (
            TokenClassificationLoss,
        )

        return TokenClassificationLoss(**settings)

    def training_features(self, examples):
        """Returns sequences with labels at the words' first pieces."""
        builder = FeaturesBuilder(
            pad_id=self.tokenizer.pad_id, token_padding={LABELS: IGNORED}
        )
        for sequences in self._sequences(examples, self.labels):
            for sequence in sequences:
                types = [0] * len(sequence.ids)
                builder.append(sequence.ids, types, **{LABELS: sequence.labels})
        return builder.build()

    def prediction_features(self, examples):
        """Returns one or more sequences per sentence.

        `metadata` has the list of sequences of each sentence.
        """
        sentences = list(self._sequences(examples, None))
        builder = FeaturesBuilder(pad_id=self.tokenizer.pad_id)
        for sequences in sentences:
            for sequence in sequences:
                builder.append(sequence.ids, [0] * len(sequence.ids))
        return builder.build(sentences)

    def predictions(self, examples, features, outputs):
        """Returns the probabilities of the labels for each word."""
        logits = iter([output["logits"] for output in outputs])
        empty = np.zeros([0, len(self.labels)])
        return [
            softmax(
                values_of_words(sequences, [next(logits) for _ in sequences])
            )
            if sequences
            else empty
            for sequences in features.metadata
        ]

    def scores(self, examples, predictions):
        """Returns the task's metrics, and the mean cross-entropy of words."""
        label_ids = {label: i for i, label in enumerate(self.labels)}
        losses = [
            -np.log(p[label])
            for example, words in zip(examples, predictions, strict=True)
            for label, p in zip(_labels(example, label_ids), words, strict=True)
        ]
        scores = sequence_metrics(
            self.task_config.metrics,
            [self._best(words) for words in predictions],
            [list(example.labels) for example in examples],
        )
        return scores | {"loss": float(np.mean(losses))}

    def check_scores(self, examples):
        """Checks the metrics by scoring the labels themselves.

        Raises:
          InputError: if a label does not occur in the training files, or does
            not fit the metrics.
        """
        label_ids = {label: i for i, label in enumerate(self.labels)}
        for example in examples:
            _labels(example, label_ids)
        labels = [list(example.labels) for example in examples]
        sequence_metrics(self.task_config.metrics, labels, labels)

    def baselines(self, training, examples):
        """Returns the scores of `word_baselines`."""
        return word_baselines(self.task_config.metrics, training, examples)

    def record(self, example, prediction):
        """Returns the words and the most likely label of each."""
        return {
            "id": example.id,
            "words": list(example.words),
            "labels": self._best(prediction),
        }

    def table_rows(self, record):
        """Returns a row per word, with the id of its sentence."""
        return [
            {"id": record["id"], "word": word, "label": label}
            for word, label in zip(
                record["words"], record["labels"], strict=True
            )
        ]

    def tsv_lines(self, record, *, first):
        """Returns a line per word and a blank line, as in CoNLL files."""
        pairs = zip(record["words"], record["labels"], strict=True)
        return [*(f"{word}\t{label}" for word, label in pairs), ""]

    def has_label(self, example):
        """Returns whether an example has labels."""
        return example.labels is not None

    def serving_graph(self, model, *, packed=True):
        """Returns `token_classification_graph` of the task."""
        from albert_tf.finetuning.token_classification.model import (
            token_classification_graph,
        )

        return token_classification_graph(self, model, packed)

    def sample_examples(self, texts):
        """Returns a sentence for each text."""
        return [
            self.example_from_line(text, str(i), "")
            for i, text in enumerate(texts)
        ]

    def serving_arrays(self, examples, predictions):
        """Returns the sentences and the probabilities, padded with zeros."""
        longest = max(len(x.words) for x in examples)
        probabilities = [
            np.pad(words, [(0, longest - len(words)), (0, 0)])
            for words in predictions
        ]
        inputs = {"text": [" ".join(x.words) for x in examples]}
        return inputs, {"probabilities": np.array(probabilities)}

    def _best(self, probabilities: np.ndarray) -> list[str]:
        return [self.labels[i] for i in probabilities.argmax(axis=-1)]

    def _sequences(self, examples, labels):
        return word_features(
            examples,
            self.tokenizer,
            max_seq_length=self.max_seq_length,
            labels=labels,
        )
