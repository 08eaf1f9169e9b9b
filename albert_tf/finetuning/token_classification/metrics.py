"""Metrics of token classification, as seqeval computes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType

from albert_tf.errors import InputError, import_package

# BILOU's names of the last word of an entity and of an entity of one word,
# with those of IOBES, which are what seqeval knows by default.
_BILOU = {"L": "E", "U": "S"}

_Sentences = Sequence[Sequence[str]]

# Name -> what of seqeval's computes the score of entities.
_ENTITY_METRICS: Mapping[str, Callable[[ModuleType], Callable]] = {
    "f1": lambda seqeval: seqeval.f1_score,
    "precision": lambda seqeval: seqeval.precision_score,
    "recall": lambda seqeval: seqeval.recall_score,
}
SEQUENCE_METRICS = (*_ENTITY_METRICS, "accuracy")


def sequence_metrics(
    names: Sequence[str], predictions: _Sentences, labels: _Sentences
) -> dict[str, float]:
    """Scores the labels of words.

    An entity is found if its type, its first and its last word are right;
    precision, recall and f1 count entities of all types together ("micro").
    Where an entity begins is judged as CoNLL's script `conlleval` does, so that
    BIO, IOB1, IOB2 and IOBES need not be told apart: an I- after O, or after an
    entity of another type, begins an entity. BILOU is read as IOBES.

    Without an entity in predictions and labels, precision, recall and f1 are 0.

    Args:
      names: of the metrics, out of `SEQUENCE_METRICS`; accuracy is the share of
        words whose label is right, and takes labels of any kind.
      predictions: the label of each word of each sentence.
      labels: the right ones.

    Returns:
      Name -> score, in the order of `names`: 1 is best.

    Raises:
      InputError: an unknown metric; no words; sentences that do not fit; a
        label that is not one of entities; or seqeval is not installed.
    """
    for name in names:
        if name not in SEQUENCE_METRICS:
            raise InputError(
                f"metric {name!r}: must be one of {', '.join(SEQUENCE_METRICS)}"
            )
    _check_lengths(predictions, labels)
    scores = {}
    for name in names:
        if name == "accuracy":
            scores[name] = _accuracy(predictions, labels)
        else:
            seqeval = import_package("seqeval.metrics")
            metric = _ENTITY_METRICS[name](seqeval)
            scores[name] = metric(
                _entity_labels(labels, "labels"),
                _entity_labels(predictions, "predictions"),
                zero_division=0,
            )
    return {name: float(score) for name, score in scores.items()}


def _accuracy(predictions: _Sentences, labels: _Sentences) -> float:
    pairs = zip(_flat(predictions), _flat(labels), strict=True)
    right = [prediction == label for prediction, label in pairs]
    return sum(right) / len(right)


def _flat(sentences: _Sentences) -> Iterable[str]:
    return itertools.chain.from_iterable(sentences)


def _check_lengths(predictions: _Sentences, labels: _Sentences) -> None:
    if len(predictions) != len(labels):
        raise InputError(
            f"predictions of {len(predictions)} sentences, labels of "
            f"{len(labels)}: they must be of the same ones"
        )
    for i, pair in enumerate(zip(predictions, labels, strict=True)):
        if len(pair[0]) != len(pair[1]):
            raise InputError(
                f"sentence {i}: {len(pair[0])} predictions and {len(pair[1])} "
                "labels; there must be one of each a word"
            )
    if not any(labels):
        raise InputError("labels: there are none, so there is no score")


def _entity_labels(sentences: _Sentences, what: str) -> list[list[str]]:
    """Returns the labels as seqeval wants them."""
    known = {}
    for label in set(_flat(sentences)):
        prefix, dash, entity = label.partition("-")
        prefix = _BILOU.get(prefix, prefix)
        if label != "O" and not (
            prefix in ("B", "I", "E", "S") and dash and entity
        ):
            raise InputError(
                f"{what}: {label!r} is no label of entities (O, B-PER, I-PER "
                "and the like); score others by accuracy"
            )
        known[label] = f"{prefix}{dash}{entity}"
    return [[known[label] for label in sentence] for sentence in sentences]
