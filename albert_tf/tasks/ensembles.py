"""Several models as one: means of what they predict, and what that gains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from albert_tf.errors import InputError

# Probabilities in bfloat16 add up to 1 within this.
_SUM_TOLERANCE = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnsembleGain:
    """A metric of an ensemble, beside those of its members; more is better.

    Attributes:
      metric: its name.
      members: model -> its score.
      ensemble: the score of the ensemble.
    """

    metric: str
    members: Mapping[str, float]
    ensemble: float

    @property
    def over_best(self) -> float:
        """What the ensemble has more than its best member."""
        return self.ensemble - max(self.members.values())

    @property
    def over_mean(self) -> float:
        """What it has more than its members' mean."""
        return self.ensemble - float(np.mean(list(self.members.values())))

    def __str__(self) -> str:
        scores = ", ".join(f"{x:.4f}" for x in self.members.values())
        return (
            f"{self.metric} {self.ensemble:.4f}: {self.over_best:+.4f} against "
            f"the best and {self.over_mean:+.4f} against the mean of its "
            f"{len(self.members)} members ({scores})"
        )


def average_probabilities(members: Mapping[str, ArrayLike]) -> np.ndarray:
    """Returns the mean of probabilities of classes, or of options.

    The paper's ensembles average what their models predict, too.

    Args:
      members: model -> probabilities `[..., classes]`, which add up to 1.

    Returns:
      float64 `[..., classes]`.

    Raises:
      InputError: there is no model; two models have different shapes; or these
        are no probabilities.
    """
    arrays = _arrays(members)
    for name, array in arrays.items():
        if not array.size:
            continue
        sums = array.sum(axis=-1)
        if (array < 0).any() or not (abs(sums - 1) <= _SUM_TOLERANCE).all():
            raise InputError(
                f"model {name}: its predictions are no probabilities, which "
                "are not negative and add up to 1; apply softmax to logits"
            )
    return _mean(arrays)


def average_values(members: Mapping[str, ArrayLike]) -> np.ndarray:
    """Returns the mean of predicted numbers.

    Args:
      members: model -> numbers `[examples]`.

    Returns:
      float64 `[examples]`.

    Raises:
      InputError: there is no model, or two have different shapes.
    """
    return _mean(_arrays(members))


def average_word_probabilities(
    members: Mapping[str, Sequence[ArrayLike]],
) -> list[np.ndarray]:
    """Returns the mean of probabilities of the labels of words.

    Words, not pieces, so that models of different vocabularies can be averaged.

    Args:
      members: model -> an array `[words, labels]` for each sentence.

    Returns:
      float64 `[words, labels]` for each sentence.

    Raises:
      InputError: see `average_probabilities`.
    """
    lengths = {name: len(sentences) for name, sentences in members.items()}
    _check_equal(lengths, "sentences")
    sentences = next(iter(lengths.values()))
    return [
        average_probabilities({name: x[i] for name, x in members.items()})
        for i in range(sentences)
    ]


def ensemble_gains(
    members: Mapping[str, Mapping[str, float]], ensemble: Mapping[str, float]
) -> list[EnsembleGain]:
    """Compares the scores of an ensemble with those of its members.

    Args:
      members: model -> metric -> score.
      ensemble: metric -> score.

    Returns:
      A comparison for each metric of the ensemble, in its order.
    """
    return [
        EnsembleGain(
            metric=metric,
            members={name: scores[metric] for name, scores in members.items()},
            ensemble=score,
        )
        for metric, score in ensemble.items()
    ]


def _arrays(members: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(x, np.float64) for name, x in members.items()}
    _check_equal({name: x.shape for name, x in arrays.items()}, "shapes")
    return arrays


def _check_equal(values: Mapping[str, object], what: str) -> None:
    if not values:
        raise InputError("ensemble: no model named")
    (first, wanted), *others = values.items()
    for name, value in others:
        if value != wanted:
            raise InputError(
                f"ensemble: {what} of predictions differ: {wanted} of model "
                f"{first}, {value} of {name}; the models must be of one task, "
                "and predict the same examples"
            )


def _mean(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.mean(list(arrays.values()), axis=0)
