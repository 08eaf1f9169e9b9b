"""A run of any task: its devices, its folder, its model and its training."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.files import writing
from albert_tf.models.base import AlbertModel
from albert_tf.training.checkpoint_files import run_checkpoints
from albert_tf.training.config import RunConfig
from albert_tf.training.distribution import (
    check_tpu_run,
    make_strategy,
    set_precision,
)
from albert_tf.training.optimizers import make_optimizer
from albert_tf.training.result import TrainingResult
from albert_tf.training.run_folder import (
    RunFolder,
    load_run_config,
    open_run_folder,
)
from albert_tf.training.trainer import Trainer
from albert_tf.training.workers import is_chief

Model = TypeVar("Model", bound=AlbertModel)


def strategy_of(config: RunConfig, **paths: Any) -> tf.distribute.Strategy:
    """Connects the devices of a run; call it before TensorFlow uses any.

    `paths` are what the run reads and writes; see `check_tpu_run`.
    """
    check_tpu_run(
        config.tpu,
        paths,
        precision=config.precision,
        jit_compile=config.jit_compile,
    )
    return make_strategy(
        config.distribution,
        tpu=config.tpu,
        tpu_zone=config.tpu_zone,
        gcp_project=config.gcp_project,
    )


def recorded_architecture(config: RunConfig) -> AlbertConfig | None:
    """Returns the architecture of the run that `config` resumes.

    It has the overrides of `config`. Such a run does not need the checkpoint
    that it began with. None for a new run, which has no checkpoints of its own
    yet.
    """
    if not run_checkpoints(config.output):
        return None
    return load_run_config(config.output).replace(**config.config_overrides)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run whose folder is open and locked; see `open_run`."""

    config: RunConfig
    strategy: tf.distribute.Strategy
    folder: RunFolder

    def make_model(
        self, make: Callable[[], Model], seed: int | None = None
    ) -> Model:
        """Calls `make` with the precision, a seed and the devices.

        `seed` is that of new weights; by default, the run's.
        """
        set_precision(self.config.precision)
        keras.utils.set_random_seed(self.config.seed if seed is None else seed)
        with self.strategy.scope():
            return make()

    def train(
        self,
        model: AlbertModel,
        loss: Any,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        data: Any,
        *,
        notes: str = "",
        summary: Mapping[str, str],
        **arguments: Any,
    ) -> TrainingResult:
        """Trains a model to the last step, and says what it trains and where.

        `loss`, `schedule`, `data` and further arguments are those of `Trainer`
        and its `fit`. `notes` are lines that are printed before the summary:
        heading -> what is trained, on what and how.
        """
        config = self.config

        def start() -> None:
            self.folder.claim()
            if is_chief(self.strategy):
                text = notes + self._describe(summary)
                print(text, file=sys.stderr, flush=True)

        with writing(config.output):
            return Trainer(
                config,
                self.strategy,
                model,
                loss,
                make_optimizer(config, model),
                schedule,
                run_dir=config.output,
            ).fit(data, start=start, **arguments)

    def _describe(self, summary: Mapping[str, str]) -> str:
        state = "a new run"
        if self.folder.resumes:
            state = "which holds this run already"
        output = os.fspath(self.config.output)
        rows = {**summary, "writes": f"{output}, {state}"}
        width = max(9, *map(len, rows))
        return "\n".join(f"{x:{width}} {text}" for x, text in rows.items())


@contextlib.contextmanager
def open_run(
    config: RunConfig,
    settings: Mapping[str, Any],
    strategy: tf.distribute.Strategy,
    *,
    files: Mapping[str, str | bytes],
    command_files: Mapping[str, str] | None,
) -> Iterator[Run]:
    """Opens and locks the folder of a run; see `open_run_folder`.

    `settings` are those to record, and what follows from the data.
    """
    with open_run_folder(
        config.output,
        settings,
        may_change=config.free_on_resume,
        defaults=config.default_settings(),
        files=files,
        command_files=command_files,
        strategy=strategy,
    ) as folder:
        yield Run(config, strategy, folder)
