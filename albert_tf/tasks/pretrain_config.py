"""The settings of a pretraining run."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.training.training_config import TrainingConfig

OPTIMIZERS = ("lamb", "adamw")
# What evaluations give; the sentence order's not for records without.
METRICS = ("loss", "mlm_loss", "mlm_accuracy", "sop_loss", "sop_accuracy")
SCHEDULES = ("polynomial", "linear", "cosine", "warmup_stable_decay")

# Settings that a resumed run may change: the weights do not depend on them, as
# long as the run does not diverge.
_FREE_ON_RESUME = (
    "eval_batch_size",
    "max_eval_steps",
    "steps_per_loop",
    "log_steps",
    "save_steps",
    "eval_steps",
    "keep_checkpoints",
    "best_metric",
    "on_divergence",
    "max_loss",
    "rollback_window",
    "log_update_norms",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """What to train, on which records, how, and where it goes.

    The defaults are the original's (paper, section 4.1).

    Attributes:
      input_patterns: a folder made by `create_pretraining_data`, or globs of
        records separated by commas.
      output_dir: folder of the run; a run that is there already is resumed.
      model: the architecture; None: that of `init_from`.
      init_from: a checkpoint of any kind (see `open_checkpoint`) whose weights
        a new run starts from, at step 0; see `interop.growing` for other
        architectures than its own. A run that is resumed does not need it.
      model_changes: fields to change, such as dropout, where `model` is None.
      training: length, periods, clipping and seed.
      train_batch_size: examples of a step, over all replicas and micro-batches.
      eval_batch_size: examples of a batch of the evaluation.
      max_eval_steps: most batches of an evaluation; 0 for all.
      optimizer: "lamb" or "adamw".
      learning_rate: highest rate; 0.00176 is for 4096 examples a step.
      num_warmup_steps: steps in which the rate grows to that.
      scale_lr_with_batch: `learning_rate` and `num_warmup_steps` are those for
        batches of `reference_batch_size`. For batches b times as large, the
        rate is multiplied by sqrt(b), and the warm-up's share of the run by b
        (LAMB's paper, arXiv:1904.00962, table 4; the defaults are its row
        for 4096).
      reference_batch_size: see `scale_lr_with_batch`.
      schedule: one of `SCHEDULES`, see `training.schedules`; "polynomial" is
        the original's.
      start_warmup_step: step at which the rate begins to grow ("polynomial").
      poly_power: power of the decay to 0 at the last step ("polynomial").
      final_lr_fraction: of the highest rate, what is left at the last step
        ("cosine").
      decay_steps: the last steps, in which the rate falls to 0; 0: it stays
        ("warmup_stable_decay").
      layerwise_lr_decay: what the rate is multiplied by from each level of the
        model to the one below, see `layerwise_rates`; 1 for one rate.
      weight_decay: of all weights but biases and LayerNorm.
      precision: "float32", "mixed_bfloat16" or "mixed_float16".
      rematerialize: train in less memory; see `AlbertEncoder`.
      distribution, tpu, tpu_zone, gcp_project: see `make_strategy`.
    """

    input_patterns: str | Sequence[str]
    output_dir: str | os.PathLike[str]
    training: TrainingConfig
    model: AlbertConfig | None = None
    init_from: str | os.PathLike[str] | None = None
    model_changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    train_batch_size: int = 4096
    eval_batch_size: int = 64
    max_eval_steps: int = 100
    optimizer: str = "lamb"
    learning_rate: float = 0.00176
    num_warmup_steps: int = 3125
    scale_lr_with_batch: bool = False
    reference_batch_size: int = 4096
    schedule: str = "polynomial"
    start_warmup_step: int = 0
    poly_power: float = 1.0
    final_lr_fraction: float = 0.0
    decay_steps: int = 0
    layerwise_lr_decay: float = 1.0
    weight_decay: float = 0.01
    precision: str = "float32"
    rematerialize: bool = False
    distribution: str = "auto"
    tpu: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None

    def __post_init__(self):
        if self.model is None and self.init_from is None:
            raise InputError("model=None must go with init_from=...")
        if self.model is not None and self.model_changes:
            raise InputError("model_changes must go with model=None")
        for name in (
            "train_batch_size",
            "eval_batch_size",
            "reference_batch_size",
        ):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("max_eval_steps", "num_warmup_steps", "weight_decay"):
            self._require(name, getattr(self, name) >= 0, "at least 0")
        for name in ("learning_rate", "poly_power"):
            self._require(name, getattr(self, name) > 0, "positive")
        self._require(
            "optimizer",
            self.optimizer in OPTIMIZERS,
            f"one of {', '.join(OPTIMIZERS)}",
        )
        self._check_learning_rate()

    def _check_learning_rate(self) -> None:
        self._require(
            "schedule",
            self.schedule in SCHEDULES,
            f"one of {', '.join(SCHEDULES)}",
        )
        for name, schedule, default in (
            ("poly_power", "polynomial", 1.0),
            ("start_warmup_step", "polynomial", 0),
            ("final_lr_fraction", "cosine", 0.0),
            ("decay_steps", "warmup_stable_decay", 0),
        ):
            self._require(
                name,
                self.schedule == schedule or getattr(self, name) == default,
                f"{default}, or go with schedule={schedule}",
            )
        total_steps = self.training.total_steps
        self._require(
            "num_warmup_steps",
            not self.scale_lr_with_batch
            or self.resolved_warmup_steps <= total_steps,
            f"lower: scaled with the batch it is {self.resolved_warmup_steps}, "
            f"more than total_steps={total_steps}",
        )
        self._require(
            "final_lr_fraction", 0 <= self.final_lr_fraction <= 1, "in [0, 1]"
        )
        self._require(
            "layerwise_lr_decay", 0 < self.layerwise_lr_decay <= 1, "in (0, 1]"
        )

    def _require(self, name: str, condition: bool, rule: str) -> None:
        if not condition:
            raise InputError(f"{name}={getattr(self, name)!r} must be {rule}")

    @property
    def resolved_learning_rate(self) -> float:
        """The highest rate, scaled with the batch size if that is asked for."""
        if not self.scale_lr_with_batch:
            return self.learning_rate
        growth = self.train_batch_size / self.reference_batch_size
        return self.learning_rate * math.sqrt(growth)

    @property
    def resolved_warmup_steps(self) -> int:
        """The steps of warm-up, scaled likewise."""
        if not self.scale_lr_with_batch:
            return self.num_warmup_steps
        growth = self.train_batch_size / self.reference_batch_size
        return round(self.num_warmup_steps * growth)

    @property
    def free_on_resume(self) -> tuple[str, ...]:
        """Settings that a resumed run may change.

        Those of the learning rate are subject to `check_rates_so_far`.
        """
        if self.schedule == "warmup_stable_decay":
            return (*_FREE_ON_RESUME, "total_steps", "decay_steps")
        return _FREE_ON_RESUME

    def settings(self) -> dict[str, Any]:
        """Returns, flat and as JSON values, what a resume must agree on."""
        flat = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name
            not in {
                "input_patterns",
                "output_dir",
                "model",
                "model_changes",
                "init_from",
                "training",
                # Where it runs is no property of the run.
                "distribution",
                "tpu",
                "tpu_zone",
                "gcp_project",
            }
        }
        if self.scale_lr_with_batch:
            # For the record: they follow from the others.
            flat |= {
                "resolved_learning_rate": self.resolved_learning_rate,
                "resolved_warmup_steps": self.resolved_warmup_steps,
            }
        return (
            flat
            | self.training.to_dict()
            | {
                "model": self.model.to_dict(),
                "init_from": self.init_from and os.fspath(self.init_from),
            }
        )

    @classmethod
    def default_settings(cls) -> dict[str, Any]:
        """Returns what holds for settings that an older run did not have."""
        return {
            field.name: field.default
            for config in (cls, TrainingConfig)
            for field in dataclasses.fields(config)
            if field.default is not dataclasses.MISSING
        }
