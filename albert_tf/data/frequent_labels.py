"""Accuracies of one constant guess of masked words, from manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# Number of labels that a manifest counts: data sets of one language share their
# most frequent ones.
_COUNTED = 100


def rank_labels(counts: np.ndarray) -> list[int]:
    """Returns the ids of the most frequent labels, the first one first."""
    return np.argsort(-counts, kind="stable")[:_COUNTED].tolist()


def describe_labels(counts: np.ndarray, ids: Iterable[int]) -> dict[str, Any]:
    """Returns the manifest's entry for the frequent labels of a split.

    Args:
      counts: int64 `[vocab_size]`, how often each id is a label in the split.
      ids: what `rank_labels` returns for training.
    """
    return {
        "total": int(counts.sum()),
        "counts": {str(each): int(counts[each]) for each in ids},
    }


def guess_accuracies(
    manifests: Sequence[Mapping[str, Any]], split: str
) -> list[float]:
    """Returns the accuracy of one guess on the split of each manifest.

    The guess is the most frequent training label of all of them together. The
    result is empty if it is unknown: older manifests count no labels, and
    in different languages the frequent ones differ.
    """
    statistics = [manifest["splits"][split] for manifest in manifests]
    guesses = {x.get("constant_guess", {}).get("id") for x in manifests}
    if len(manifests) == 1 or (len(guesses) == 1 and None not in guesses):
        return [each["constant_guess_accuracy"] for each in statistics]
    guess = _common_guess([x["splits"].get("train", {}) for x in manifests])
    shares = [_shares(each) for each in statistics]
    if any(guess not in each for each in shares):
        return []
    return [each[guess] for each in shares]


def _common_guess(trained: Sequence[Mapping[str, Any]]) -> str:
    """Returns the most frequent label of several splits; "" if unknown."""
    shares = [_shares(each) for each in trained]
    if not all(shares):
        return ""
    sizes = [each["counts"]["predictions"] for each in trained]
    # A label that is not counted is at most as frequent as those that are.
    limits = [min(each.values()) for each in shares]

    def most(label: str) -> float:
        return sum(
            size * each.get(label, limit)
            for size, each, limit in zip(sizes, shares, limits, strict=True)
        )

    guess = max(dict.fromkeys(label for x in shares for label in x), key=most)
    return guess if all(guess in each for each in shares) else ""


def _shares(statistics: Mapping[str, Any]) -> dict[str, float]:
    """Returns id -> share of the labels of a split, for those counted."""
    found = statistics.get("frequent_labels", {"total": 0, "counts": {}})
    total = max(1, found["total"])
    return {label: count / total for label, count in found["counts"].items()}
