"""Baselines of text classification and regression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from albert_tf.finetuning.text_classification.bag_of_words import (
    bag_of_words_predictions,
)
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
    label_scores,
)

# A bag of words is trained on no more examples than these, drawn at random, so
# that it takes seconds.
_MAX_TRAINING = 20_000

Baselines = dict[str, dict[str, float]]
Score = Callable[[np.ndarray], dict[str, float]]


def class_baselines(
    metrics: Sequence[str],
    labels: Sequence[str],
    training: Iterable[TextExample],
    examples: Sequence[TextExample],
) -> Baselines:
    """Scores the most frequent label, and a bag of words.

    The loss of the first is that of the labels' frequencies as probabilities.

    Args:
      metrics: names of the metrics, see `classification_metrics`.
      labels: names of the classes.
      training: training examples with labels.
      examples: examples with labels, to be scored.
    """
    ids = {label: i for i, label in enumerate(labels)}
    training = list(training)
    targets = np.array([ids[str(x.label)] for x in training])
    truth = np.array([ids[str(x.label)] for x in examples])
    # Half an example more of each, so that no label is impossible.
    counts = np.bincount(targets, minlength=len(labels)) + 0.5
    constant = label_scores(
        metrics, [counts / counts.sum()] * len(truth), truth.tolist()
    )
    return {
        "most frequent label": constant,
        **_bag_of_words(metrics, training, targets, examples, truth),
    }


def number_baselines(
    metrics: Sequence[str],
    training: Iterable[TextExample],
    examples: Sequence[TextExample],
) -> Baselines:
    """Scores the mean label, and a bag of words.

    Correlations with a constant are not defined: the mean has only a loss.

    Args:
      metrics: names of the metrics, see `classification_metrics`.
      training: training examples with labels.
      examples: examples with labels, to be scored.
    """
    training = list(training)
    targets = np.array([x.label for x in training], float)
    truth = np.array([x.label for x in examples], float)
    return {
        "mean label": {
            **dict.fromkeys(metrics, np.nan),
            "loss": float(np.mean((targets.mean() - truth) ** 2)),
        },
        **_bag_of_words(metrics, training, targets, examples, truth),
    }


def _bag_of_words(
    metrics: Sequence[str],
    training: Sequence[TextExample],
    targets: np.ndarray,
    examples: Sequence[TextExample],
    truth: np.ndarray,
) -> Baselines:
    """Returns the scores of a bag of words; {} if there are no words."""
    if len(training) > _MAX_TRAINING:
        drawn = np.random.default_rng(0).choice(
            len(training), _MAX_TRAINING, replace=False
        )
        training = [training[i] for i in drawn]
        targets = targets[drawn]

    def score(predictions: np.ndarray, values: np.ndarray) -> float:
        key = metrics[:1]
        return classification_metrics(key, predictions, values)[metrics[0]]

    try:
        predictions = bag_of_words_predictions(
            training, targets, examples, score
        )
    except ValueError as error:
        if "empty vocabulary" in str(error) or "no terms" in str(error):
            return {}
        raise
    return {"bag of words": classification_metrics(metrics, predictions, truth)}
