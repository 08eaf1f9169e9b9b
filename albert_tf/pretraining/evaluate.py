"""Evaluation of pretraining checkpoints."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig, warn_of_untrained_positions
from albert_tf.data.manifest import DATA_FILE, read_manifest_file
from albert_tf.data.record_files import group_by_corpus
from albert_tf.data.records import Records, open_records
from albert_tf.errors import InputError
from albert_tf.files import PathPatterns, is_remote
from albert_tf.input_files import exists, read_json
from albert_tf.interop.checkpoint import check_tokenizer
from albert_tf.interop.huggingface import CONFIG_FILE
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import (
    CHECKPOINTS,
    config_of_checkpoint,
    fine_tuned_model,
)
from albert_tf.models.base import AlbertModel
from albert_tf.models.pretrained import assign_weights
from albert_tf.objectives.objective import Objective
from albert_tf.pretrained_models import local_or_packaged
from albert_tf.pretraining.phase_records import objective_of
from albert_tf.pretraining.positions import on_repeated_positions
from albert_tf.schema import typed
from albert_tf.training.checkpoint_files import (
    BEST,
    checkpoint_path,
    find_checkpoint,
)
from albert_tf.training.checkpoints import load_model_variables
from albert_tf.training.distribution import (
    set_precision,
    strategy_of_this_machine,
)
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.run_folder import FILE, load_run_config, read_settings

NEWEST = "newest"


def evaluate_pretraining(
    run_dir: str | os.PathLike[str],
    input_patterns: PathPatterns,
    *,
    checkpoint: str | int = NEWEST,
    split: str = "heldout",
    batch_size: int = 64,
    max_steps: int = 0,
) -> dict[str, float]:
    """Evaluates one checkpoint of a run, or of any format, on records.

    Args:
      run_dir: the folder of the run, a folder of `save_pretrained` or
        transformers with a pretraining head, or "albert_tiny_en".
      input_patterns: a folder of records, or globs.
      checkpoint: "newest", "best" (of a run with `best_metric`) or a step.
      split: "heldout" or "train", for a folder.
      batch_size: examples per batch.
      max_steps: maximum number of batches; 0 for all.

    Returns:
      `step` of a run, the metrics by name and, for records with a manifest,
      `Records.baselines`.
    """
    run_dir = local_or_packaged(run_dir)
    _check_run(run_dir)
    if not exists(os.path.join(run_dir, FILE)):
        if checkpoint != NEWEST:
            raise InputError(
                f"{run_dir}: a saved model, not a pretraining run, and has no "
                f"checkpoint {checkpoint!r}; leave it out"
            )
        records = open_records(input_patterns, split)
        return _evaluate_saved(run_dir, records, batch_size, max_steps)
    path = find_checkpoint(_path(run_dir, str(checkpoint)))
    records = open_records(input_patterns, split)
    ((_, scores),) = evaluate_checkpoints(
        [path], records, batch_size=batch_size, max_steps=max_steps
    )
    return scores


def evaluate_checkpoints(
    checkpoints: Sequence[str],
    records: Records,
    *,
    batch_size: int = 64,
    max_steps: int = 0,
    score_pairs: bool = False,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Evaluates checkpoints of one or several runs, in the given order.

    Checkpoints of one architecture share a model, which is traced once. Before
    the first evaluation, all runs are checked.

    Args:
      checkpoints: paths without extension, as returned by `match_checkpoints`,
        in the folders of their runs.
      records: the records to evaluate on.
      batch_size: examples per batch.
      max_steps: maximum number of batches; 0 for all.
      score_pairs: whether to score pairs even if the last phase of the run
        trained on none.

    Yields:
      The path of a checkpoint, and what `evaluate_pretraining` returns.

    Raises:
      InputError: also after the last one, if checkpoints could not be read.
    """
    described = {path: _describe(path) for path in checkpoints}
    for path, (config, _) in described.items():
        records.check_model(config)
        _check_vocabulary(_run_of(path), records)
        warn_of_untrained_positions(config, records.max_seq_length)
    check_runs(checkpoints)
    baselines = records.baselines()
    scorers: dict[tuple[AlbertConfig, str, Objective], Any] = {}
    damaged = []
    for path, (config, settings) in described.items():
        objective = objective_of(settings, records)
        if not score_pairs and not _trained_pairs(path, settings, records):
            objective = dataclasses.replace(objective, pair_task="none")
        key = (
            config.replace(trained_positions=None),
            settings.get("precision", "float32"),
            objective,
        )
        if key not in scorers:
            scorers[key] = _make_scorer(*key, records, batch_size)
        model, score = scorers[key]
        try:
            step = load_model_variables(model, path)
        except InputError as error:
            damaged.append(str(error))
            continue
        evaluate = functools.partial(score, max_steps)
        trained = config.num_trained_positions
        if trained < records.max_seq_length:
            evaluate = on_repeated_positions(evaluate, model, trained)
        with records.explained_errors(config):
            scores = evaluate()
        yield path, {"step": step} | scores | baselines
    if damaged:
        others = len(described) - len(damaged)
        text = f"; the other {others} were scored" if others else ""
        raise InputError("; ".join(damaged) + text)


def _trained_pairs(
    checkpoint: str, settings: Mapping[str, Any], records: Records
) -> bool:
    """Returns whether the last phase of a run trained on pairs, of any kind."""
    path = os.path.join(_run_of(checkpoint), DATA_FILE)
    trained = records.pair_task
    if exists(path):
        trained = read_manifest_file(path)["settings"]["sentence_order"]
    last = (settings.get("phases") or [{}])[-1]
    return last.get("sentence_order", trained) != "none"


def record_scores(
    evaluator: Evaluator,
    records: Records,
    split: str,
    batch_size: int,
    model: AlbertConfig,
) -> Callable[[int], dict[str, float]]:
    """Returns a function that evaluates a model on a split of records.

    The function takes the maximum number of batches to read, of the split and
    of each corpus of a mixture; 0 for all. It returns the metrics by name;
    those of a corpus end with its name: `mlm_loss/wiki`. The datasets are built
    once for all calls. `model` is the architecture of the model.
    """
    record_sets = {"": records}
    corpora = group_by_corpus(records.files[split])
    if len(corpora) > 1:
        record_sets |= {
            f"/{name}": dataclasses.replace(
                records, files={split: tuple(files)}, corpora=()
            )
            for name, files in corpora.items()
        }
    datasets = {
        suffix: each.dataset(
            batch_size, training=False, split=split, model=model
        )
        for suffix, each in record_sets.items()
    }

    def score(max_steps: int) -> dict[str, float]:
        return {
            name + suffix: value
            for suffix, dataset in datasets.items()
            for name, value in evaluator(dataset, max_steps or None).items()
        }

    return score


def _make_scorer(
    config: AlbertConfig,
    precision: str,
    objective: Objective,
    records: Records,
    batch_size: int,
) -> tuple[AlbertModel, Callable[[int], dict[str, float]]]:
    """Returns a model, and a function that evaluates it on records."""
    set_precision(precision)
    strategy = strategy_of_this_machine()
    with strategy.scope():
        model = objective.create_model(config)
    evaluator = Evaluator(strategy, model, objective, batch_size)
    return model, record_scores(
        evaluator, records, records.split, batch_size, config
    )


def _evaluate_saved(
    path: str | os.PathLike[str],
    records: Records,
    batch_size: int,
    max_steps: int,
) -> dict[str, float]:
    """Evaluates a checkpoint that is not of a run."""
    checkpoint = open_checkpoint(path, head=ANY_HEAD)
    check_tokenizer(f"run={os.fspath(path)}", checkpoint, records.tokenizer)
    records.check_model(checkpoint.config)
    objective = objective_of(checkpoint.objective, records)
    heads = {*checkpoint.components, *checkpoint.objective_heads}
    missing = {*objective.heads} - heads - {"sop_head"}
    if missing:
        raise InputError(
            f"{os.fspath(path)} has no {min(missing)}, the head of the "
            f"objective {objective.name} to evaluate on records"
        )
    if "sop_head" not in heads:
        objective = dataclasses.replace(objective, pair_task="none")
    model, score = _make_scorer(
        checkpoint.config, "float32", objective, records, batch_size
    )
    kept = objective.trained_heads(checkpoint)
    assign_weights(model, checkpoint, new_head=True, kept_heads=kept)
    with records.explained_errors(checkpoint.config):
        scores = score(max_steps)
    return scores | records.baselines()


def _describe(checkpoint: str) -> tuple[AlbertConfig, dict[str, Any]]:
    """Returns the architecture of a checkpoint, and the run's settings."""
    run_dir = _run_of(checkpoint)
    config, settings = load_run_config(run_dir), read_settings(run_dir)
    path = os.path.join(run_dir, CONFIG_FILE)
    if exists(path):
        trained = typed(read_json(path), "trained_positions", int, source=path)
        config = config.replace(trained_positions=trained)
    name = os.path.basename(checkpoint)
    return config_of_checkpoint(config, settings, name), settings


def check_runs(checkpoints: Iterable[str]) -> None:
    """Raises an `InputError` unless checkpoints are of pretraining runs."""
    for run_dir in dict.fromkeys(map(_run_of, checkpoints)):
        _check_run(run_dir)


def _check_run(run_dir: str) -> None:
    """Raises an `InputError` if a folder holds no pretrained model."""
    tuned = fine_tuned_model(run_dir) is not None
    saved = exists(os.path.join(run_dir, CONFIG_FILE)) and not exists(
        os.path.join(run_dir, FILE)
    )
    if tuned or (not saved and "head_dropout" in read_settings(run_dir)):
        raise InputError(
            f"run {run_dir}: a fine-tuned model, not a pretraining run; "
            f"evaluate it with `albert evaluate --model={run_dir} --input=FILE`"
        )


def _run_of(checkpoint: str) -> str:
    if not is_remote(checkpoint):
        checkpoint = os.path.abspath(checkpoint)  # It may be "step-00000100".
    return os.path.dirname(os.path.dirname(checkpoint))


def _check_vocabulary(run_dir: str, records: Records) -> None:
    """Checks that records were made with the vocabulary of a run."""
    path = os.path.join(run_dir, DATA_FILE)
    if records.manifest is None or not exists(path):
        return
    theirs = read_manifest_file(path)["tokenizer"]["fingerprint"]
    if theirs != records.manifest["tokenizer"]["fingerprint"]:
        raise InputError(
            f"records {records.files[records.split][0].path}: made with a "
            f"different vocabulary than the run {run_dir}; make them with the "
            "run's tokenizer"
        )


def _path(run_dir: str, checkpoint: str) -> str:
    """Returns the path for `find_checkpoint`, of a name or a step."""
    if checkpoint == NEWEST:
        return run_dir
    if checkpoint == BEST:
        return os.path.join(run_dir, BEST)
    if not checkpoint.isdecimal():
        raise InputError(
            f"checkpoint={checkpoint!r} must be {NEWEST!r}, {BEST!r} or a step"
        )
    return checkpoint_path(os.path.join(run_dir, CHECKPOINTS), int(checkpoint))
