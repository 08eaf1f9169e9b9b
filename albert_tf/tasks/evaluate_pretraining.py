"""Scores of pretraining runs on records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretraining import pretraining_task
from albert_tf.tasks.pretraining_records import open_records
from albert_tf.training.checkpoints import load_model_variables
from albert_tf.training.distribution import make_strategy, set_precision
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.run_folder import read_settings


def evaluate_pretraining(
    run_dir: str | os.PathLike[str],
    input_patterns: str | Sequence[str],
    *,
    split: str = "heldout",
    batch_size: int = 64,
    max_steps: int = 0,
) -> dict[str, float]:
    """Scores the newest checkpoint of a run on records it was not trained on.

    Args:
      run_dir: the folder of the run.
      input_patterns: a folder of records, or globs.
      split: "heldout" or "train", for a folder.
      batch_size: examples of a batch.
      max_steps: most batches; 0 for all.

    Returns:
      Metrics by name, and where the records have a manifest the baselines
      `mlm_unigram_accuracy` (always the most frequent training label) and
      `sop_chance` (always the more frequent order).
    """
    config = load_run_config(run_dir)
    records = open_records(input_patterns, config, split)
    set_precision(read_settings(run_dir)["precision"])
    strategy = make_strategy()
    with strategy.scope():
        model = AlbertPretrainer(config)
    step = load_model_variables(model, run_dir)
    task = pretraining_task(records.manifest)
    dataset = records.dataset(batch_size, training=False)
    metrics = Evaluator(strategy, model, task)(dataset, max_steps or None)
    return {"step": step} | metrics | baselines(records.manifest, split)


def baselines(
    manifest: Mapping[str, Any] | None, split: str = "heldout"
) -> dict[str, float]:
    """Returns what a model that has learned nothing scores on a split."""
    if manifest is None:
        return {}
    description = manifest["splits"][split]
    found = {"mlm_unigram_accuracy": description["constant_guess_accuracy"]}
    if pretraining_task(manifest).sentence_order:
        labels = description["labels"]
        found["sop_chance"] = max(labels.values()) / sum(labels.values())
    return found


def load_run_config(run_dir: str | os.PathLike[str]) -> AlbertConfig:
    """Returns the architecture of a run."""
    return AlbertConfig.from_dict(
        read_settings(run_dir)["model"], source=f"run {os.fspath(run_dir)}"
    )
