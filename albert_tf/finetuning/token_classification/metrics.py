"""Metrics of token classification, computed by seqeval, and baselines."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from albert_tf.errors import InputError
from albert_tf.finetuning.task_config import check_metric_names
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)
from albert_tf.optional_packages import import_package

# Prefixes of BILOU (last word, single word) -> those of IOBES, which seqeval
# expects.
_BILOU = {"L": "E", "U": "S"}

_Sentences = Sequence[Sequence[str]]

SEQUENCE_METRICS = ("f1", "precision", "recall", "accuracy")


def sequence_metrics(
    names: Sequence[str], predictions: _Sentences, labels: _Sentences
) -> dict[str, float]:
    """Scores predicted labels of words.

    Precision, recall and f1 are micro-averaged over entities, whose type, first
    and last word must match. They are 0 if there are no entities. Accuracy is
    the fraction of words with the right label; labels can be arbitrary strings.

    BIO, IOB1, IOB2, IOBES and BILOU labels are supported. As in CoNLL's script
    `conlleval`, an I- label after O or after an entity of another type begins a
    new entity.

    Raises:
      InputError: if a metric is unknown, there are no words, the lengths
        differ, a label does not follow one of the schemes, or seqeval is not
        installed.
    """
    check_metric_names(names, SEQUENCE_METRICS)
    _check_lengths(predictions, labels)
    scores = {}
    for name in names:
        if name == "accuracy":
            scores[name] = _accuracy(predictions, labels)
        else:
            seqeval = import_package("seqeval.metrics")
            # Those of entities have the names of seqeval's functions.
            scores[name] = getattr(seqeval, f"{name}_score")(
                _entity_labels(labels, "labels"),
                _entity_labels(predictions, "predictions"),
                zero_division=0,
            )
    return {name: float(score) for name, score in scores.items()}


def _accuracy(predictions: _Sentences, labels: _Sentences) -> float:
    pairs = zip(_flat(predictions), _flat(labels), strict=True)
    hits = [prediction == label for prediction, label in pairs]
    return sum(hits) / len(hits)


def _flat(sentences: _Sentences) -> Iterable[str]:
    return itertools.chain.from_iterable(sentences)


def _check_lengths(predictions: _Sentences, labels: _Sentences) -> None:
    if len(predictions) != len(labels):
        raise InputError(
            f"predictions of {len(predictions)} sentences, labels of "
            f"{len(labels)}: the numbers must be equal"
        )
    for i, pair in enumerate(zip(predictions, labels, strict=True)):
        if len(pair[0]) != len(pair[1]):
            raise InputError(
                f"sentence {i}: {len(pair[0])} predictions and {len(pair[1])} "
                "labels; there must be one per word"
            )
    if not any(labels):
        raise InputError("labels: there are none to score with")


def are_entity_labels(labels: Sequence[str]) -> bool:
    """Returns whether labels follow one of the schemes of entities."""
    try:
        _entity_labels([labels], "labels")
    except InputError:
        return False
    return True


def _entity_labels(sentences: _Sentences, name: str) -> list[list[str]]:
    """Converts labels to IOBES."""
    converted = {}
    for label in set(_flat(sentences)):
        prefix, dash, entity = label.partition("-")
        prefix = _BILOU.get(prefix, prefix)
        if label != "O" and not (
            prefix in ("B", "I", "E", "S") and dash and entity
        ):
            raise InputError(
                f"{name}: {label!r} is not an entity label such as O, B-PER or "
                "I-PER; use accuracy for other labels"
            )
        converted[label] = f"{prefix}{dash}{entity}"
    return [[converted[label] for label in sentence] for sentence in sentences]


def word_baselines(
    metrics: Sequence[str],
    training: Iterable[TokenClassificationExample],
    examples: Sequence[TokenClassificationExample],
) -> dict[str, dict[str, float]]:
    """Scores the most frequent label, and that of each word.

    A word that is not in the training examples gets the most frequent label of
    all words.
    """
    of_words: dict[str, Counter[str]] = defaultdict(Counter)
    for example in training:
        for word, label in zip(
            example.words, example.labels or (), strict=True
        ):
            of_words[word][label] += 1
    [(most_frequent, _)] = sum(
        of_words.values(), start=Counter[str]()
    ).most_common(1)
    known = {
        word: counts.most_common(1)[0][0] for word, counts in of_words.items()
    }
    truth = [list(x.labels or ()) for x in examples]
    return {
        name: sequence_metrics(
            metrics,
            [
                [of.get(word, most_frequent) for word in x.words]
                for x in examples
            ],
            truth,
        )
        for name, of in (
            ("most frequent label", {}),
            ("most frequent label of each word", known),
        )
    }
