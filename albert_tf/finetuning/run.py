"""Set-up of fine-tuning runs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig, warn_of_untrained_positions
from albert_tf.errors import InputError, counted
from albert_tf.finetuning.class_weights import class_weights_of
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import (
    TaskData,
    TaskFiles,
    load_data,
    read_examples,
)
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.results import DevSet
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.growing import extend_positions
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer, tokenizer_files
from albert_tf.training.distribution import LOCAL
from albert_tf.training.input import slice_size
from albert_tf.training.run import (
    Run,
    open_run,
    recorded_architecture,
    strategy_of,
)
from albert_tf.training.schedules import describe_rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneRun:
    """A run that is ready to start: settings, task, data and initial weights.

    Attributes:
      config: the settings, with those that depend on the data filled in.
      task_type: the task, with the tokenizer.
      dev: the development set; None without one.
      baselines: scores of trivial predictions, see `TaskType.baselines`.
      checkpoint: the initial weights; None if the run resumes from a checkpoint
        of its own.
      loss_arguments: see `TaskType.make_loss`.
    """

    config: FinetuneConfig
    strategy: tf.distribute.Strategy
    task_type: TaskType
    data: TaskData
    dev: DevSet | None
    baselines: Mapping[str, Mapping[str, float]]
    architecture: AlbertConfig
    checkpoint: Checkpoint | None
    loss_arguments: Mapping[str, Any]

    def make_model(self) -> AlbertModel:
        """Creates the model with a new head; call it in the strategy's scope.

        Raises:
          InputError: if the checkpoint lacks a part of the encoder, or the
            model cannot be trained on the data.
        """
        arguments = {
            **self.task_type.model_arguments(),
            "packed": not self.config.fixed_length,
            "rematerialize": self.config.rematerialize,
        }
        if self.task_type.has_head:
            arguments["dropout"] = self.config.head_dropout
        model_class = self.task_type.model_class
        if self.checkpoint is None:
            model = model_class(self.architecture, **arguments)
        else:
            model = model_class.from_checkpoint(
                self.checkpoint, new_head=True, **arguments
            )
        self.task_type.prepare_model(
            model,
            self.data.train,
            slice_size(
                self.config.train_batch_size,
                self.strategy.num_replicas_in_sync,
                self.config.gradient_accumulation_steps,
            ),
        )
        return model

    def open(
        self, command_files: Mapping[str, str] | None
    ) -> contextlib.AbstractContextManager[Run]:
        """Locks and checks the run's folder; see `open_run`."""
        return open_run(
            self.config,
            self.config.settings()
            | {
                "model": self.architecture.to_dict(),
                "data": self.data.identity,
            },
            self.strategy,
            files=tokenizer_files(self.task_type.tokenizer),
            command_files=command_files,
        )


def open_runs(
    configs: Sequence[FinetuneConfig], task_config: TaskConfig, files: TaskFiles
) -> list[FinetuneRun]:
    """Prepares runs that differ in output and seed only; writes nothing."""
    config = configs[0]
    _check_machine(config)
    # Workers must connect before TensorFlow runs anything else.
    strategy = strategy_of(config)
    starts = _open_starting_points(configs)
    max_positions = min(
        start.architecture.max_position_embeddings for start in starts
    )
    length = task_config.settings["max_seq_length"]
    if length > max_positions:
        raise InputError(
            f"max_seq_length={length}: the model of {config.init_from} takes "
            f"at most {max_positions} tokens; lower it"
        )
    warn_of_untrained_positions(
        starts[0].architecture, length, "max_seq_length"
    )
    task_type = make_task_type(task_config, starts[0].tokenizer)
    data = load_data(task_type, files)
    dev = _dev_set(config, task_type, data)
    baselines = {}
    if dev:
        baselines = _baselines(
            config, starts[0].checkpoint, task_type, files, dev
        )
    metric = task_config.key_metric if dev else ""
    loss_arguments = _loss_arguments(config, task_type, data)
    longest = int(data.train.lengths.max())
    starts = [start.trained_on(longest) for start in starts]
    return [
        FinetuneRun(
            config=each.resolved(data.train.num_examples, metric),
            strategy=strategy,
            task_type=task_type,
            data=data,
            dev=dev,
            baselines=baselines,
            architecture=start.architecture,
            checkpoint=start.checkpoint,
            loss_arguments=loss_arguments,
        )
        for each, start in zip(configs, starts, strict=True)
    ]


def _dev_set(
    config: FinetuneConfig, task_type: TaskType, data: TaskData
) -> DevSet | None:
    if data.dev_features is None:
        if config.dev_selection == "half":
            raise InputError("dev_selection='half' needs a development set")
        return None
    dev = DevSet(
        examples=data.dev,
        features=data.dev_features,
        selection=config.dev_selection,
    )
    dev.check(task_type)
    return dev


def _baselines(
    config: FinetuneConfig,
    checkpoint: Checkpoint | None,
    task_type: TaskType,
    files: TaskFiles,
    dev: DevSet,
) -> dict[str, dict[str, float]]:
    def word_embeddings() -> np.ndarray | None:
        opened = checkpoint
        # A run that resumes has not opened the checkpoint that it began with,
        # which may be gone.
        if opened is None:
            try:
                opened = open_checkpoint(config.init_from, head=ANY_HEAD)
            except InputError:
                return None
        return opened.arrays["encoder/embeddings/word_embeddings"]

    # Bad examples have been reported when the features were made.
    bad = BadExamples(files.on_bad_example)
    training = read_examples(
        task_type, files.train, bad=bad, labelled=True, training=True
    )
    return task_type.baselines(training, dev.scored, word_embeddings)


def _loss_arguments(
    config: FinetuneConfig, task_type: TaskType, data: TaskData
) -> dict[str, Any]:
    """Returns the arguments of the loss that differ from their defaults."""
    defaults = config.default_settings()
    names = ("label_smoothing", "temperature", "class_weights", "head_dropout")
    given = {name: getattr(config, name) for name in names}
    given = {name: x for name, x in given.items() if x != defaults[name]}
    known = {*task_type.loss_settings}
    if task_type.has_head:
        known.add("head_dropout")
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"{name}={value}: tasks of the type {task_type.name} do not "
                "have this setting"
            )
    arguments = {n: x for n, x in given.items() if n != "head_dropout"}
    if "class_weights" in arguments:
        arguments["class_weights"] = class_weights_of(
            arguments["class_weights"], task_type.labels, data.train
        )
    return arguments


class _StartingPoint(NamedTuple):
    """Architecture, tokenizer and initial weights of a run."""

    architecture: AlbertConfig
    tokenizer: Tokenizer
    # None for a run that resumes from a checkpoint of its own: `init_from` is
    # then no longer needed.
    checkpoint: Checkpoint | None

    def trained_on(self, length: int) -> _StartingPoint:
        """Returns the starting point of a run on sequences of some length.

        The run trains its position embeddings up to this length. Those that the
        checkpoint has not trained start as copies of others.
        """
        trained = self.architecture.num_trained_positions
        if self.checkpoint is None or length <= trained:
            return self
        positions = self.architecture.max_position_embeddings
        checkpoint = extend_positions(self.checkpoint, positions)
        architecture = checkpoint.config.replace(trained_positions=length)
        checkpoint = dataclasses.replace(checkpoint, config=architecture)
        return self._replace(architecture=architecture, checkpoint=checkpoint)


def _open_starting_points(
    configs: Sequence[FinetuneConfig],
) -> list[_StartingPoint]:
    new: _StartingPoint | None = None
    starts = []
    for config in configs:
        if architecture := recorded_architecture(config):
            tokenizer = load_tokenizer(config.output)
            start = _StartingPoint(architecture, tokenizer, None)
        else:
            if new is None:  # Opened once: it may be large.
                checkpoint = open_checkpoint(
                    config.init_from,
                    head=ANY_HEAD,
                    config_overrides=config.config_overrides,
                )
                name = f"init_from={config.init_from}"
                tokenizer = tokenizer_of(checkpoint, name)
                new = _StartingPoint(checkpoint.config, tokenizer, checkpoint)
            start = new
        starts.append(start)
    return starts


def run_summary(run: FinetuneRun, model: AlbertModel) -> dict[str, str]:
    """Describes model, data and training: heading -> text."""
    config, task_config = run.config, run.task_type.task_config
    features = run.data.train
    kind = run.task_type.describe_examples(features)
    lengths, dev = features.lengths, run.dev
    scored = "none to score on"
    if dev:
        scored = f"{len(dev.scored):,} to score on"
        if dev.selection == "half":
            scored = (
                f"{len(dev.examples) - len(dev.scored):,} to select the "
                f"weights by, {scored}"
            )
    task = f"{task_config.name}: {task_config.task_type}"
    if task_config.labels:
        task += f" {', '.join(task_config.labels[:8])}"
        task += ", ..." if task_config.labels[8:] else ""
    epochs = (
        config.num_train_steps * config.train_batch_size / features.num_examples
    )
    lines = {
        "task": task,
        "model": f"{model.count_params():,} parameters, from "
        f"{os.fspath(config.init_from)}",
        "examples": f"{features.num_examples:,} {kind} to train on, {scored}; "
        f"{lengths.mean():.0f} tokens per sequence, {lengths.max()} at most "
        f"(limit {run.task_type.max_seq_length})",
        "training": f"{counted(config.num_train_steps, 'step')} of "
        f"{config.train_batch_size} ({epochs:.1f} epochs) with "
        f"{config.optimizer}, "
        + describe_rate(config.learning_rate, config.warmup_steps),
    }
    if run.checkpoint and run.checkpoint.notes:
        lines["weights"] = "; ".join(run.checkpoint.notes)
    return lines


def _check_machine(config: FinetuneConfig) -> None:
    if "://" in os.fspath(config.output):
        raise InputError(f"output={config.output}: must be a local folder")
    if config.tpu not in (None, LOCAL):
        raise InputError(
            f"tpu={config.tpu!r}: fine-tuning writes to a local folder, which "
            "other machines cannot access; use --tpu=local on a TPU VM"
        )
