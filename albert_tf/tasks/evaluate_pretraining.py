"""Scores of pretraining runs on records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.tasks.pretraining import pretraining_task
from albert_tf.tasks.pretraining_records import PretrainingRecords, open_records
from albert_tf.training.checkpoint_files import (
    BEST,
    FOLDER,
    checkpoint_path,
    find_checkpoint,
)
from albert_tf.training.distribution import (
    set_precision,
    strategy_of_this_machine,
)
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.run_folder import read_settings
from albert_tf.training.saved_values import load_model_variables

NEWEST = "newest"


def evaluate_pretraining(
    run_dir: str | os.PathLike[str],
    input_patterns: str | Sequence[str],
    *,
    checkpoint: str | int = NEWEST,
    split: str = "heldout",
    batch_size: int = 64,
    max_steps: int = 0,
) -> dict[str, float]:
    """Scores one checkpoint of a run on records it was not trained on.

    Args:
      run_dir: the folder of the run.
      input_patterns: a folder of records, or globs.
      checkpoint: "newest", "best" (of a run with `best_metric`) or a step.
      split: "heldout" or "train", for a folder.
      batch_size: examples of a batch.
      max_steps: most batches; 0 for all.

    Returns:
      `step`, the metrics by name, and where the records have a manifest the
      baselines `mlm_unigram_accuracy` (always the most frequent training label)
      and `sop_chance` (always the more frequent order).

    Raises:
      InputError: there is no such checkpoint, it cannot be read, or the records
        do not fit the model.
    """
    read_settings(run_dir)  # Says so where there is no run at all.
    found = find_checkpoint(_path(os.fspath(run_dir), str(checkpoint)))
    ((_, scores),) = evaluate_checkpoints(
        [found],
        input_patterns,
        split=split,
        batch_size=batch_size,
        max_steps=max_steps,
    )
    return scores


def evaluate_checkpoints(
    checkpoints: Sequence[str],
    input_patterns: str | Sequence[str],
    *,
    split: str = "heldout",
    batch_size: int = 64,
    max_steps: int = 0,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Scores checkpoints of one or several runs, each once, in their order.

    What an architecture needs is built and traced once for all of its
    checkpoints.

    Args:
      checkpoints: paths without extension, as `match_checkpoints` finds them,
        in the folders of their runs.
      input_patterns: see `evaluate_pretraining`, as all others are.

    Yields:
      A path, and what `evaluate_pretraining` returns.

    Raises:
      InputError: a run has no record of its settings, or the records do not fit
        its model; before the first one is scored. Or checkpoints cannot be
        read; after all others were scored.
    """
    kinds = {path: _kind(path) for path in checkpoints}
    records = {
        model: open_records(input_patterns, model, split)
        for model, _ in kinds.values()
    }
    scorers: dict[tuple, _Scorer] = {}
    damaged = []
    for path, kind in kinds.items():
        if kind not in scorers:
            scorers[kind] = _Scorer(*kind, records[kind[0]], batch_size)
        try:
            step = scorers[kind].load(path)
        except InputError as error:
            damaged.append(str(error))
            continue
        scores = scorers[kind].scores(max_steps)
        known = baselines(records[kind[0]].manifest, split)
        yield path, {"step": step} | scores | known
    if damaged:
        others = len(kinds) - len(damaged)
        text = f"; the other {others} were scored" if others else ""
        raise InputError("; ".join(damaged) + text)


class _Scorer:
    """A model of one architecture, and how it is scored on records."""

    def __init__(
        self,
        config: AlbertConfig,
        precision: str,
        records: PretrainingRecords,
        batch_size: int,
    ):
        set_precision(precision)
        strategy = strategy_of_this_machine()
        with strategy.scope():
            self._model = AlbertPretrainer(config)
        self._evaluator = Evaluator(
            strategy, self._model, pretraining_task(records.manifest)
        )
        self._dataset = records.dataset(batch_size, training=False)

    def load(self, path: str) -> int:
        """Takes the weights of a checkpoint; returns its step."""
        return load_model_variables(self._model, path)

    def scores(self, max_steps: int) -> dict[str, float]:
        """Returns the metrics of the weights that were loaded last."""
        return self._evaluator(self._dataset, max_steps or None)


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


def _kind(checkpoint: str) -> tuple[AlbertConfig, str]:
    """Returns architecture and precision of a checkpoint's run."""
    if "://" not in checkpoint:
        checkpoint = os.path.abspath(checkpoint)  # It may be "step-00000100".
    run_dir = os.path.dirname(os.path.dirname(checkpoint))
    return load_run_config(run_dir), read_settings(run_dir)["precision"]


def _path(run_dir: str, checkpoint: str) -> str:
    """Returns what `find_checkpoint` is to find."""
    if checkpoint == NEWEST:
        return run_dir
    if checkpoint == BEST:
        return os.path.join(run_dir, BEST)
    if not checkpoint.isdecimal():
        raise InputError(
            f"checkpoint={checkpoint!r} must be {NEWEST!r}, {BEST!r} or a step"
        )
    return checkpoint_path(os.path.join(run_dir, FOLDER), int(checkpoint))
