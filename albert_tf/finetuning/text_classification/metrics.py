"""Metrics of text classification and regression: those of GLUE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from albert_tf.errors import InputError, import_package

# Class 1 is the positive one: what MRPC and QQP call a paraphrase.
_POSITIVE = 1


def classification_metrics(
    names: Sequence[str], predictions: ArrayLike, labels: ArrayLike
) -> dict[str, float]:
    """Scores predictions of classes, or of numbers.

    Of classes, `[examples]` of class numbers:
    - accuracy: the share of right ones.
    - f1: of class 1, when the classes are 0 and 1. 0 where no example is of
      class 1 and none is predicted to be.
    - matthews: Matthews' correlation. 0 where labels or predictions are all of
      one class.

    Of numbers, `[examples]`:
    - pearson, spearman: correlations. NaN where labels or predictions are all
      equal, for there is none then.

    Args:
      names: of the metrics.
      predictions: class numbers, or numbers.
      labels: the right ones.

    Returns:
      Name -> score, in the order of `names`: 1 is best.

    Raises:
      InputError: an unknown metric; no examples; predictions and labels of
        different shapes; a prediction or label that the metric is not for; or
        scikit-learn or scipy is not installed.
    """
    for name in names:
        if name not in CLASSIFICATION_METRICS:
            raise InputError(
                f"metric {name!r}: must be one of "
                f"{', '.join(CLASSIFICATION_METRICS)}"
            )
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape or labels.ndim != 1:
        raise InputError(
            f"predictions {list(predictions.shape)} and labels "
            f"{list(labels.shape)}: must be two lists of the same length"
        )
    if not labels.size:
        raise InputError("labels: there are none, so there is no score")
    return {
        name: float(CLASSIFICATION_METRICS[name](predictions, labels))
        for name in names
    }


def _accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    _check_classes(predictions, labels)
    metrics = import_package("sklearn.metrics")
    return metrics.accuracy_score(labels, predictions)


def _f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    _check_classes(predictions, labels)
    other = np.setdiff1d(np.concatenate([predictions, labels]), [0, _POSITIVE])
    if other.size:
        raise InputError(
            f"f1 is for the classes 0 and 1, and there is a class {other[0]}; "
            "use accuracy"
        )
    metrics = import_package("sklearn.metrics")
    return metrics.f1_score(
        labels, predictions, pos_label=_POSITIVE, zero_division=0.0
    )


def _matthews(predictions: np.ndarray, labels: np.ndarray) -> float:
    _check_classes(predictions, labels)
    if _constant(predictions) or _constant(labels):
        return 0.0
    metrics = import_package("sklearn.metrics")
    return metrics.matthews_corrcoef(labels, predictions)


def _pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
    _check_numbers(predictions, labels)
    if _constant(predictions) or _constant(labels):
        return np.nan
    stats = import_package("scipy.stats")
    return stats.pearsonr(labels, predictions).statistic


def _spearman(predictions: np.ndarray, labels: np.ndarray) -> float:
    _check_numbers(predictions, labels)
    if _constant(predictions) or _constant(labels):
        return np.nan
    stats = import_package("scipy.stats")
    return stats.spearmanr(labels, predictions).statistic


# Name -> how the score is computed.
CLASSIFICATION_METRICS: Mapping[
    str, Callable[[np.ndarray, np.ndarray], float]
] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}


def _constant(values: np.ndarray) -> bool:
    return bool(np.all(values == values[0]))


def _check_classes(predictions: np.ndarray, labels: np.ndarray) -> None:
    for what, values in (("predictions", predictions), ("labels", labels)):
        if values.dtype.kind not in "iub":
            raise InputError(
                f"{what}: {values[0]!r} is no class number; numbers are scored "
                "by pearson and spearman"
            )


def _check_numbers(predictions: np.ndarray, labels: np.ndarray) -> None:
    for what, values in (("predictions", predictions), ("labels", labels)):
        if values.dtype.kind not in "iuf":
            raise InputError(f"{what}: {values[0]!r} is no number")
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"{what}[{bad[0]}] is {values[bad[0]]}, and {bad.size} of "
                f"{values.size} are not finite: the model has diverged, or a "
                "label is wrong"
            )
