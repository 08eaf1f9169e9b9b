"""Accuracies of constant predictions on pretraining records."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np

from albert_tf.data.frequent_labels import guess_accuracies
from albert_tf.data.record_files import RecordFile

# Score of `measure_shortcuts` -> last part of the name of the baseline.
_NAMES = {"punctuation_rule": "rule", "shallow_classifier": "shallow"}


def compute_baselines(
    files: Sequence[RecordFile], split: str, pair_task: str
) -> dict[str, float]:
    """Returns the accuracies of constant predictions; see `Records.baselines`.

    The statistics of `split` are those in the manifests of `files`.
    """
    manifests = [
        manifest
        for manifest in {id(x.manifest): x.manifest for x in files}.values()
        if manifest and split in manifest["splits"]
    ]
    if not manifests or len(manifests) < len({id(x.manifest) for x in files}):
        return {}
    statistics = [manifest["splits"][split] for manifest in manifests]
    scores = {}
    if accuracies := guess_accuracies(manifests, split):
        scores["mlm_unigram_accuracy"] = _mean(
            accuracies, [each["counts"]["predictions"] for each in statistics]
        )
    if pair_task == "none":
        return scores
    labels: collections.Counter[str] = collections.Counter()
    for each in statistics:
        # Training draws both orders with the same probability.
        labels.update(each.get("labels", {"0": 1, "1": 1}))
    if total := sum(labels.values()):
        scores[f"{pair_task}_chance"] = max(labels.values()) / total
    shortcuts = [each.get("shortcuts", {}) for each in statistics]
    for key, name in _NAMES.items():
        known = [each for each in shortcuts if key in each]
        if known:
            scores[f"{pair_task}_{name}"] = _mean(
                [each[key] for each in known], [each["pairs"] for each in known]
            )
    return scores


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    # A single number is not averaged, to keep it exact.
    if len(values) == 1:
        return values[0]
    return float(np.dot(values, weights)) / max(1, sum(weights))
