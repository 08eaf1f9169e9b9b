"""Accuracies on records without a model."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.data.order_shortcuts import measure_shortcuts
from albert_tf.data.record_files import RecordFile
from albert_tf.text.base_tokenizer import Tokenizer

# Score of `measure_shortcuts` -> last part of the name of the baseline.
_NAMES = {"punctuation_rule": "rule", "shallow_classifier": "shallow"}


def compute_baselines(
    files: Sequence[RecordFile],
    split: str,
    pair_task: str,
    get_tokenizer: Callable[[], Tokenizer | None],
) -> dict[str, float]:
    """Returns the baselines of a split; see `Records.baselines`.

    Args:
      files: the files of the split.
      split: "train" or "heldout".
      pair_task: "sop", "nsp" or "none".
      get_tokenizer: returns the tokenizer of the records, if they can be read;
        called only if older records must be measured.
    """
    manifests = [
        manifest
        for manifest in {id(x.manifest): x.manifest for x in files}.values()
        if manifest and split in manifest["splits"]
    ]
    if not manifests or len(manifests) < len({id(x.manifest) for x in files}):
        return {}
    statistics = [manifest["splits"][split] for manifest in manifests]
    scores = {
        "mlm_unigram_accuracy": _mean(
            [each["constant_guess_accuracy"] for each in statistics],
            [each["counts"]["predictions"] for each in statistics],
        )
    }
    if pair_task == "none":
        return scores
    labels: collections.Counter[str] = collections.Counter()
    for each in statistics:
        # Training draws both orders with the same probability.
        labels.update(each.get("labels", {"0": 1, "1": 1}))
    if total := sum(labels.values()):
        scores[f"{pair_task}_chance"] = max(labels.values()) / total
    shortcuts = [
        _shortcuts(each, split, files, pair_task, get_tokenizer)
        for each in manifests
    ]
    for key, name in _NAMES.items():
        known = [each for each in shortcuts if key in each]
        if known:
            scores[f"{pair_task}_{name}"] = _mean(
                [each[key] for each in known],
                [each["pairs"] for each in known],
            )
    return scores


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    # A single number is not averaged, to keep it exact.
    if len(values) == 1:
        return values[0]
    return float(np.dot(values, weights)) / max(1, sum(weights))


def _shortcuts(
    manifest: Mapping[str, Any],
    split: str,
    files: Sequence[RecordFile],
    pair_task: str,
    get_tokenizer: Callable[[], Tokenizer | None],
) -> Mapping[str, float]:
    """Returns the manifest's `shortcuts`; measures those of older records."""
    found = manifest["splits"][split]
    if "shortcuts" in found:
        return found["shortcuts"]
    tokenizer = get_tokenizer()
    if tokenizer is None:
        return {}
    paths = [file.path for file in files if file.manifest is manifest]
    passes = found.get("passes", 1)
    return measure_shortcuts(paths, pair_task, tokenizer, passes)
