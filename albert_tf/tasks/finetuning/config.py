"""The settings of a fine-tuning run."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.tasks.pretrain_config import OPTIMIZERS
from albert_tf.training.training_config import TrainingConfig

# The others of pretraining's have settings of their own.
SCHEDULES = ("polynomial", "linear", "cosine")

# Settings that a resumed run may change; the weights do not depend on them.
FREE_ON_RESUME = (
    "predict_batch_size",
    "steps_per_loop",
    "log_steps",
    "save_steps",
    "keep_checkpoints",
    "early_stopping_patience",
    "on_divergence",
    "max_loss",
    "rollback_window",
    "log_update_norms",
    "cache_dir",
)
# Where a run is and where it runs is no property of it.
_NOT_RECORDED = (
    "output_dir",
    "training",
    "model_changes",
    "distribution",
    "tpu",
    "tpu_zone",
    "gcp_project",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """How to fine-tune, from which weights, and where it goes.

    What to train on is the task's business, see `TaskFiles`.

    Attributes:
      output_dir: folder of the run; a run that is there already is resumed.
      init_from: the checkpoint to start from, of any kind: see
        `open_checkpoint`; or the folder of another fine-tuning run, such as one
        on MNLI. Its task head is not used.
      model_changes: fields of its architecture to change, such as dropout.
      training: length, periods, clipping and seed. Where `num_train_epochs` is
        given, `total_steps` follows from it; `eval_steps` of 0 is an epoch.
      num_train_epochs: how often to pass over the training rows.
      early_stopping_patience: see `TrainingConfig`.
      train_batch_size: examples of a step, over all replicas; of spans,
        windows.
      predict_batch_size: rows of a batch of the evaluation.
      optimizer: "adamw", as the original, or "lamb".
      learning_rate: the highest.
      num_warmup_steps: steps in which the rate grows to that; None: as
        `warmup_proportion` says.
      warmup_proportion: of all steps.
      schedule: one of `SCHEDULES`; "polynomial" is the original's.
      layerwise_lr_decay: see `layerwise_rates`.
      weight_decay: of all weights but biases and LayerNorm.
      head_dropout: before the head.
      cache_dir: where features are kept for the next time; None: nowhere.
      precision: "float32", "mixed_bfloat16" or "mixed_float16".
      rematerialize: train in less memory; see `AlbertEncoder`.
      distribution, tpu, tpu_zone, gcp_project: see `make_strategy`.
    """

    output_dir: str | os.PathLike[str]
    init_from: str | os.PathLike[str]
    training: TrainingConfig
    model_changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    num_train_epochs: float | None = None
    early_stopping_patience: int = 0
    train_batch_size: int = 32
    predict_batch_size: int = 32
    optimizer: str = "adamw"
    learning_rate: float = 5e-5
    num_warmup_steps: int | None = None
    warmup_proportion: float = 0.1
    schedule: str = "polynomial"
    layerwise_lr_decay: float = 1.0
    weight_decay: float = 0.01
    head_dropout: float = 0.1
    cache_dir: str | os.PathLike[str] | None = None
    precision: str = "float32"
    rematerialize: bool = False
    distribution: str = "auto"
    tpu: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None

    def __post_init__(self):
        for name in ("train_batch_size", "predict_batch_size"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in (
            "num_warmup_steps",
            "weight_decay",
            "early_stopping_patience",
        ):
            value = getattr(self, name)
            self._require(name, value is None or value >= 0, "at least 0")
        self._require("learning_rate", self.learning_rate > 0, "positive")
        self._require(
            "num_train_epochs",
            self.num_train_epochs is None
            or 0 < self.num_train_epochs < math.inf,
            "positive",
        )
        for name in ("warmup_proportion", "head_dropout"):
            self._require(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        self._require(
            "layerwise_lr_decay", 0 < self.layerwise_lr_decay <= 1, "in (0, 1]"
        )
        for name, known in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES)):
            self._require(
                name, getattr(self, name) in known, f"one of {', '.join(known)}"
            )

    def _require(self, name: str, condition: bool, rule: str) -> None:
        if not condition:
            raise InputError(f"{name}={getattr(self, name)!r} must be {rule}")

    @property
    def fixed_length(self) -> bool:
        """Whether all batches have one shape, as XLA wants it."""
        return self.tpu is not None or self.training.jit_compile

    @property
    def warmup_steps(self) -> int:
        """The steps of warm-up."""
        if self.num_warmup_steps is not None:
            return self.num_warmup_steps
        return int(self.training.total_steps * self.warmup_proportion)

    def resolved(self, examples: int, best_metric: str) -> FinetuneConfig:
        """Returns the settings with what follows from the data.

        Args:
          examples: how many there are to train on.
          best_metric: what decides which checkpoint is the best; "" where there
            is nothing to be scored on.

        Raises:
          InputError: early stopping without anything to be scored on.
        """
        an_epoch = examples / self.train_batch_size
        total_steps = self.training.total_steps
        if self.num_train_epochs is not None:
            total_steps = max(1, round(self.num_train_epochs * an_epoch))
        return dataclasses.replace(
            self,
            num_train_epochs=None,
            training=dataclasses.replace(
                self.training,
                total_steps=total_steps,
                eval_steps=self.training.eval_steps or math.ceil(an_epoch),
                best_metric=best_metric,
                early_stopping_patience=self.early_stopping_patience,
            ),
        )

    def settings(self) -> dict[str, Any]:
        """Returns, flat and as JSON values, what a resume must agree on."""
        flat = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in _NOT_RECORDED
        }
        for name in ("init_from", "cache_dir"):
            flat[name] = flat[name] and os.fspath(flat[name])
        return flat | self.training.to_dict()

    @classmethod
    def default_settings(cls) -> dict[str, Any]:
        """Returns what holds for settings that an older run did not have."""
        return {
            field.name: field.default
            for config in (cls, TrainingConfig)
            for field in dataclasses.fields(config)
            if field.default is not dataclasses.MISSING
        }
