"""A fine-tuning run: what it needs and what comes of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig, warn_of_untrained_positions
from albert_tf.errors import InputError, counted
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import TaskData, TaskFiles, load_data
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer, tokenizer_files
from albert_tf.training.checkpoint_files import FOLDER, list_checkpoints
from albert_tf.training.distribution import (
    LOCAL,
    check_tpu_run,
    make_strategy,
)
from albert_tf.training.run_folder import (
    RunFolder,
    load_run_config,
    open_run_folder,
)
from albert_tf.training.trainer import TrainingResult


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneRun:
    """A run: its settings, its task with the data, and what it starts from.

    Attributes:
      config: the settings, those that depend on the data resolved.
      strategy: the distribution strategy.
      task_type: the task, with the tokenizer.
      data: what to train on and to be scored on.
      architecture: the model's.
      checkpoint: the weights to start from; None: the run resumes from a
        checkpoint of its own.
    """

    config: FinetuneConfig
    strategy: tf.distribute.Strategy
    task_type: TaskType
    data: TaskData
    architecture: AlbertConfig
    checkpoint: Checkpoint | None

    def make_model(self) -> AlbertModel:
        """Makes the model, with a new head; call it under the scope.

        Raises:
          InputError: the checkpoint lacks a part of the encoder.
        """
        arguments = {
            **self.task_type.model_arguments(),
            "dropout": self.config.head_dropout,
            "packed": not self.config.fixed_length,
            "rematerialize": self.config.rematerialize,
        }
        model_class = self.task_type.model_class
        if self.checkpoint is None:
            return model_class(self.architecture, **arguments)
        return model_class.from_checkpoint(
            self.checkpoint, new_head=True, **arguments
        )

    def open_folder(
        self, command_files: Mapping[str, str] | None
    ) -> contextlib.AbstractContextManager[RunFolder]:
        """Locks and checks the folder; see `open_run_folder`."""
        return open_run_folder(
            self.config.output,
            self.config.settings()
            | {
                "model": self.architecture.to_dict(),
                "data": self.data.identity,
            },
            may_change=self.config.free_on_resume,
            defaults=self.config.default_settings(),
            files=tokenizer_files(self.task_type.tokenizer),
            command_files=command_files,
            strategy=self.strategy,
        )


def open_runs(
    configs: Sequence[FinetuneConfig], task_config: TaskConfig, files: TaskFiles
) -> list[FinetuneRun]:
    """Opens and reads all that runs need; writes only to the cache.

    Args:
      configs: settings that differ in output and seed.
      task_config: the task.
      files: what to train on and to be scored on.
    """
    config = configs[0]
    _check_machine(config)
    # Several workers must find each other before anything else of TensorFlow.
    strategy = make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )
    starts = _open_starts(configs)
    longest = min(
        start.architecture.max_position_embeddings for start in starts
    )
    length = task_config.settings["max_seq_length"]
    if length > longest:
        raise InputError(
            f"max_seq_length={length}: the model of {config.init_from} takes "
            f"{longest} tokens at most; lower it"
        )
    warn_of_untrained_positions(
        starts[0].architecture, length, "max_seq_length"
    )
    task_type = make_task_type(task_config, starts[0].tokenizer)
    data = load_data(task_type, files, config.cache_dir)
    metric = task_config.key_metric if data.dev else ""
    return [
        FinetuneRun(
            config=each.resolved(data.train.num_examples, metric),
            strategy=strategy,
            task_type=task_type,
            data=data,
            architecture=start.architecture,
            checkpoint=start.checkpoint,
        )
        for each, start in zip(configs, starts, strict=True)
    ]


class _Start(NamedTuple):
    """What a run starts from."""

    architecture: AlbertConfig
    tokenizer: Tokenizer
    # None for a run that has a checkpoint of its own: it goes on from that, and
    # does not need what it once started from.
    checkpoint: Checkpoint | None


def _open_starts(configs: Sequence[FinetuneConfig]) -> list[_Start]:
    """Returns what each of several runs starts from."""
    new: _Start | None = None
    starts = []
    for config in configs:
        run_dir = os.fspath(config.output)
        if list_checkpoints(os.path.join(run_dir, FOLDER)):
            architecture = load_run_config(run_dir).replace(
                **config.config_overrides
            )
            start = _Start(architecture, load_tokenizer(run_dir), None)
        else:
            if new is None:  # Opened once: it may be large.
                # The head's type does not matter: it is not used.
                checkpoint = open_checkpoint(
                    config.init_from,
                    head="classifier_head",
                    config_overrides=config.config_overrides,
                )
                name = f"init_from={config.init_from}"
                tokenizer = tokenizer_of(checkpoint, name)
                new = _Start(checkpoint.config, tokenizer, checkpoint)
            start = new
        starts.append(start)
    return starts


def run_summary(run: FinetuneRun, model: AlbertModel, resumes: bool) -> str:
    """Returns lines on what is trained on what, and how."""
    config, task_config = run.config, run.task_type.task_config
    features = run.data.train
    lengths, dev = features.lengths, run.data.dev
    scored = f"{len(dev):,} to score on" if dev else "none to score on"
    what = task_config.task_type
    if task_config.labels:
        what += f" {', '.join(task_config.labels[:8])}"
        what += ", ..." if task_config.labels[8:] else ""
    epochs = (
        config.num_train_steps * config.train_batch_size / features.num_examples
    )
    lines = {
        "task": f"{task_config.name}: {what}",
        "model": f"{model.count_params():,} parameters, from "
        f"{os.fspath(config.init_from)}",
        "examples": f"{features.num_examples:,} to train on, {scored}; "
        f"{lengths.mean():.0f} tokens a sequence, at most {lengths.max()} of "
        f"{run.task_type.max_seq_length}",
        "training": f"{counted(config.num_train_steps, 'step')} of "
        f"{config.train_batch_size} ({epochs:.1f} epochs) with "
        f"{config.optimizer}, highest rate {config.learning_rate:.3g} after "
        f"{counted(config.warmup_steps, 'step')}",
        "writes": f"{os.fspath(config.output)}, "
        + ("which holds this run already" if resumes else "a new run"),
    }
    return "\n".join(f"{name:9} {text}" for name, text in lines.items())


def _check_machine(config: FinetuneConfig) -> None:
    if "://" in os.fspath(config.output):
        raise InputError(
            f"output={config.output}: the model is written to a local "
            "folder; name one"
        )
    if config.tpu not in (None, LOCAL):
        raise InputError(
            f"tpu={config.tpu!r}: fine-tuning writes to a local folder, which "
            "other machines do not see; use --tpu=local on a TPU VM"
        )
    check_tpu_run(
        config.tpu,
        {},
        precision=config.precision,
        jit_compile=config.jit_compile,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """What a run did.

    Attributes:
      training: what the loop did.
      step: the step whose weights the model has; None: the run was interrupted,
        so there is no model yet.
      scores: of the model on the development set, the key metric first; empty
        if there is none.
    """

    training: TrainingResult
    step: int | None = None
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunsResult:
    """What one or several runs did.

    Attributes:
      metric: the key metric of the task.
      results: folder below the output, "" for one run -> what it did. The last
        one may have been interrupted, and no other follows then.
    """

    metric: str
    results: Mapping[str, FinetuneResult]

    @property
    def interrupted(self) -> bool:
        """Whether the last run was interrupted."""
        return any(x.training.interrupted for x in self.results.values())

    @property
    def scores(self) -> dict[str, float]:
        """The key metric of each run; empty without a development set."""
        return {
            name: result.scores[self.metric]
            for name, result in self.results.items()
            if result.scores
        }

    def summary(self) -> str:
        """Says in some lines what the runs scored."""
        lines = []
        for name, result in self.results.items():
            text = f"{name or 'model'}: the weights of step {result.step:,}"
            for metric, score in result.scores.items():
                # Such as the number of questions.
                whole = isinstance(score, int)
                text += f", {metric} {score if whole else f'{score:.4f}'}"
            lines.append(text)
        if len(self.scores) > 1:
            median = statistics.median(self.scores.values())
            lines.append(
                f"{self.metric}: median {median:.4f} of {len(self.scores)} runs"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """Returns the text of `runs.json`."""
        scores = self.scores
        record: dict[str, Any] = {
            "metric": self.metric,
            "runs": {name: dict(x.scores) for name, x in self.results.items()},
            "best": max(scores, key=lambda name: scores[name])
            if scores
            else "run-0",
        }
        if scores:
            record["median"] = statistics.median(scores.values())
        return json.dumps(record, indent=2) + "\n"
