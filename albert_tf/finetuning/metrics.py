"""Metrics of classes and numbers: those of GLUE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from albert_tf.errors import InputError
from albert_tf.finetuning.task_config import check_metric_names
from albert_tf.optional_packages import import_package

# Metric of class indices -> function of scikit-learn.
_CLASS_METRICS = {
    "accuracy": "accuracy_score",
    "f1": "f1_score",
    "matthews": "matthews_corrcoef",
}
# Metric of numbers -> function of SciPy.
_NUMBER_METRICS = {"pearson": "pearsonr", "spearman": "spearmanr"}
CLASS_METRICS, NUMBER_METRICS = tuple(_CLASS_METRICS), tuple(_NUMBER_METRICS)
_METRICS = (*CLASS_METRICS, *NUMBER_METRICS)


def classification_metrics(
    names: Sequence[str], predictions: ArrayLike, labels: ArrayLike
) -> dict[str, float]:
    """Scores predictions of classes or numbers.

    Metrics of class indices:
    - accuracy: fraction of correct predictions.
    - f1: F1 of class 1 (the paraphrases of MRPC and QQP) for the classes 0 and
      1; 0 without labels and predictions of class 1.
    - matthews: Matthews correlation; 0 if labels or predictions are constant.

    Metrics of numbers:
    - pearson, spearman: correlations; NaN if labels or predictions are
      constant.

    Predictions and labels are `[examples]`. Scores are in the order of `names`;
    1 is best.

    Raises:
      InputError: if a metric is unknown or not defined for the values, there
        are no examples, the shapes differ, or scikit-learn or SciPy is not
        installed.
    """
    check_metric_names(names, _METRICS)
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape or labels.ndim != 1:
        raise InputError(
            f"predictions {list(predictions.shape)} and labels "
            f"{list(labels.shape)}: must be two lists of the same length"
        )
    if not labels.size:
        raise InputError("labels: there are none to score with")
    return {name: float(_score(name, predictions, labels)) for name in names}


def _score(name: str, predictions: np.ndarray, labels: np.ndarray) -> float:
    constant = any(np.all(x == x[0]) for x in (predictions, labels))
    if name in _NUMBER_METRICS:
        _check_numbers(predictions, labels)
        if constant:
            return np.nan
        stats = import_package("scipy.stats")
        correlation = getattr(stats, _NUMBER_METRICS[name])
        return correlation(labels, predictions).statistic
    _check_classes(predictions, labels)
    if name == "matthews" and constant:
        return 0.0
    metric = getattr(import_package("sklearn.metrics"), _CLASS_METRICS[name])
    if name != "f1":
        return metric(labels, predictions)
    other = np.setdiff1d(np.concatenate([predictions, labels]), [0, 1])
    if other.size:
        raise InputError(
            f"f1 is defined for the classes 0 and 1, but there is a class "
            f"{other[0]}; use accuracy"
        )
    return metric(labels, predictions, zero_division=0.0)


def _check_classes(predictions: np.ndarray, labels: np.ndarray) -> None:
    for name, values in (("predictions", predictions), ("labels", labels)):
        if values.dtype.kind not in "iub":
            raise InputError(
                f"{name}: {values[0]!r} is not a class index; use pearson or "
                "spearman for numbers"
            )


def _check_numbers(predictions: np.ndarray, labels: np.ndarray) -> None:
    for name, values in (("predictions", predictions), ("labels", labels)):
        if values.dtype.kind not in "iuf":
            raise InputError(f"{name}: {values[0]!r} is not a number")
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"{name}[{bad[0]}] is {values[bad[0]]}, and {bad.size} of "
                f"{values.size} are not finite: the model has diverged, or a "
                "label is wrong"
            )


def softmax(logits: ArrayLike) -> np.ndarray:
    """Returns probabilities over the last axis, in float64.

    In float32, small probabilities would be 0, and their loss infinite.
    """
    logits = np.asarray(logits, np.float64)
    values = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def label_scores(
    metrics: Sequence[str],
    probabilities: Sequence[np.ndarray],
    labels: Sequence[int],
) -> dict[str, float]:
    """Returns metrics of the most likely labels, and the mean cross-entropy.

    Probabilities are float64 `[labels]` for each example.
    """
    best = [int(np.argmax(p)) for p in probabilities]
    right = [p[y] for p, y in zip(probabilities, labels, strict=True)]
    scores = classification_metrics(metrics, best, labels)
    return scores | {"loss": float(-np.mean(np.log(right)))}
