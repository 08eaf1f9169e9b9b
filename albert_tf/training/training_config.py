"""How long a run is and what happens when."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from albert_tf.errors import InputError
from albert_tf.training.choices import ON_DIVERGENCE


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The settings of a run that belong to no model, task or optimizer.

    Steps are updates of the weights, counted from the start of the run.

    Attributes:
      total_steps: steps of the whole run, those before a resume included.
      steps_per_loop: most steps that run on the device between two looks of the
        host; the numbers that come out do not depend on it.
      gradient_accumulation_steps: micro-batches that a replica cuts its share
        of the global batch into, to hold the activations of one at a time.
      clip_norm: largest global norm of the gradient; 0 for no clipping.
      seed: of all randomness of the run; in [0, 2**31).
      log_steps: steps between two lines of metrics.
      save_steps: steps between two checkpoints.
      eval_steps: steps between two evaluations; 0 for one, at the end.
      keep_checkpoints: how many of the newest checkpoints stay.
      best_metric: metric of the evaluation whose best checkpoint stays, too; a
        lower one is better if "loss" is in its name. Empty for none.
      early_stopping_patience: so many evaluations in a row whose `best_metric`
        is not better than the best before them end the run; 0 for never.
      on_divergence: what a loss or gradient that is not finite, or a loss above
        `max_loss`, does: "stop" the run, or "rollback": leave the batches out
        and go on from before them.
      max_loss: largest loss of a step; 0 for no bound.
      rollback_window: batches that a rollback leaves out: that of the bad step
        and those before it.
      ema_decay: decay of moving averages of the weights, which evaluations use
        and checkpoints hold; 0 for none.
      log_update_norms: write the norm of each variable's update, and its trust
        ratio, to TensorBoard.
      dynamic_loss_scale: scale the loss and skip steps that overflow; needed
        with, and only with, precision mixed_float16.
      jit_compile: compile the step with XLA; one replica only (a TPU always
        compiles).
    """

    total_steps: int
    steps_per_loop: int = 100
    gradient_accumulation_steps: int = 1
    clip_norm: float = 1.0
    seed: int = 0
    log_steps: int = 100
    save_steps: int = 1000
    eval_steps: int = 0
    keep_checkpoints: int = 5
    best_metric: str = ""
    early_stopping_patience: int = 0
    on_divergence: str = "stop"
    max_loss: float = 0.0
    rollback_window: int = 100
    ema_decay: float = 0.0
    log_update_norms: bool = True
    dynamic_loss_scale: bool = False
    jit_compile: bool = False

    def __post_init__(self):
        for name in (
            "total_steps steps_per_loop gradient_accumulation_steps log_steps "
            "save_steps keep_checkpoints rollback_window"
        ).split():
            self._require(name, getattr(self, name) >= 1, "at least 1")
        self._require(
            "on_divergence",
            self.on_divergence in ON_DIVERGENCE,
            f"one of {', '.join(ON_DIVERGENCE)}",
        )
        self._require(
            "max_loss",
            self.max_loss >= 0 and math.isfinite(self.max_loss),
            "finite and at least 0",
        )
        self._require("eval_steps", self.eval_steps >= 0, "at least 0")
        patience = self.early_stopping_patience
        self._require("early_stopping_patience", patience >= 0, "at least 0")
        self._require(
            "early_stopping_patience",
            not patience or (self.best_metric and self.eval_steps),
            "0 without best_metric and eval_steps",
        )
        self._require(
            "clip_norm",
            self.clip_norm >= 0 and math.isfinite(self.clip_norm),
            "finite and at least 0",
        )
        self._require("ema_decay", 0 <= self.ema_decay < 1, "in [0, 1)")
        self._require("seed", 0 <= self.seed < 2**31, "in [0, 2**31)")

    def _require(self, name: str, condition: object, rule: str) -> None:
        if not condition:
            value = getattr(self, name)
            raise InputError(f"training: {name}={value} must be {rule}")

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings, for the record of a run."""
        return dataclasses.asdict(self)

    def next_stop(self, step: int) -> int:
        """Returns the step at which the host looks in again after `step`."""
        periods = [self.log_steps, self.save_steps]
        if self.eval_steps:
            periods.append(self.eval_steps)
        return min(
            step + self.steps_per_loop,
            self.total_steps,
            *((step // period + 1) * period for period in periods),
        )

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation is due after `step` updates."""
        if step >= self.total_steps:
            return True
        return step > 0 and self.eval_steps > 0 and step % self.eval_steps == 0
