"""Settings of the training loop, and those that all kinds of runs share."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.config import parse_overrides
from albert_tf.settings import (
    DIVERGENCE,
    EVALUATION,
    LEARNING_RATE,
    LENGTH,
    MACHINE,
    MODEL,
    OPTIMIZER,
    check_settings,
    described,
    require,
    setting,
    settings_of,
)

Optimizer = Literal["lamb", "adamw"]
Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Distribution = Literal["auto", "one_device", "mirrored", "multi_worker", "tpu"]

# Names in the run.json of version 0.1 -> names of today.
RENAMED_SETTINGS = {
    "keep_checkpoints": "keep_checkpoint_max",
    "predict_batch_size": "eval_batch_size",
    "save_steps": "save_checkpoints_steps",
    "total_steps": "num_train_steps",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of the training loop, whatever it trains.

    Steps are updates of the weights, counted from the start of the run.
    """

    num_train_steps: int = dataclasses.field(
        metadata=described(
            "Steps of the whole run.", group=LENGTH, bounds="[1, inf)"
        )
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Micro-batches that a device cuts its share of a step into, for less "
        "memory.",
        group=LENGTH,
        bounds="[1, inf)",
    )
    seed: int = setting(
        0,
        "Seed of new weights, order of examples and dropout.",
        group=LENGTH,
        bounds=f"[0, {2**31})",
    )
    clip_norm: float = setting(
        1.0,
        "Largest global norm of the gradient; 0: no clipping.",
        group=OPTIMIZER,
        bounds="[0, inf)",
    )
    ema_decay: float = setting(
        0.0,
        "Average the weights with this decay, and evaluate and keep or export "
        "the averages; 0: do not.",
        group=OPTIMIZER,
        bounds="[0, 1)",
    )
    jit_compile: bool = setting(
        False,
        "Compile the step with XLA, on one CPU or GPU; a TPU compiles anyway. "
        "Fine-tuning then pads all examples.",
        group=MACHINE,
    )
    steps_per_loop: int = setting(
        100,
        "Most steps that the host launches at a time; fewer if these take "
        "longer than 10 seconds.",
        group=MACHINE,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    eval_steps: int = setting(
        0,
        "Steps between two evaluations; 0: at the end only.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    save_checkpoints_steps: int = setting(
        1000,
        "Steps between two checkpoints.",
        group=EVALUATION,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    save_checkpoints_minutes: float = setting(
        30.0,
        "Minutes after which a checkpoint is written before "
        "--save_checkpoints_steps are done; 0: never.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    keep_checkpoint_max: int = setting(
        5,
        "Number of the newest checkpoints to keep.",
        group=EVALUATION,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    best_metric: str = setting(
        "",
        "Metric of the evaluations whose best checkpoint is kept as well; "
        "lower is better if its name contains 'loss'.",
        group=EVALUATION,
        on_resume="may_change",
    )
    early_stopping_patience: int = setting(
        0,
        "End the run after this many evaluations without a better result; 0: "
        "never.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    log_steps: int = setting(
        100,
        "Steps between two lines of metrics.",
        group=EVALUATION,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    log_update_norms: bool = setting(
        True,
        "Write each variable's update norm and trust ratio to TensorBoard.",
        group=EVALUATION,
        on_resume="may_change",
    )
    on_divergence: Literal["stop", "rollback"] = setting(
        "stop",
        "If the loss is not finite or above --max_loss: stop, or go back to a "
        "checkpoint and skip the batches that led there.",
        group=DIVERGENCE,
        on_resume="may_change",
    )
    max_loss: float = setting(
        0.0,
        "Largest loss of a step; 0 for any that is finite.",
        group=DIVERGENCE,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    rollback_window: int = setting(
        100,
        "Batches that --on_divergence=rollback skips: the one that diverged "
        "and those before it.",
        group=DIVERGENCE,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    dynamic_loss_scale: bool = setting(
        False,
        "Scale the loss and skip steps that overflow; required with, and only "
        "with, precision mixed_float16.",
        flag=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_early_stopping()

    def _check_early_stopping(self) -> None:
        require(
            self,
            "early_stopping_patience",
            not self.early_stopping_patience
            or (self.best_metric and self.eval_steps),
            "0 without best_metric and eval_steps",
        )

    def next_stop(self, step: int, launch: int) -> int:
        """Returns the step after which control returns to the host.

        Args:
          step: updates done.
          launch: most steps of the next launch.
        """
        periods = [self.log_steps, self.save_checkpoints_steps]
        if self.eval_steps:
            periods.append(self.eval_steps)
        return min(
            step + launch,
            self.num_train_steps,
            *((step // period + 1) * period for period in periods),
        )

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation is due after `step` updates."""
        if step >= self.num_train_steps:
            return True
        return step > 0 and self.eval_steps > 0 and step % self.eval_steps == 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig(TrainingConfig):
    """Settings that pretraining and fine-tuning share."""

    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described(
            "Folder of the run, new or to resume; required.",
            group=MODEL,
            on_resume="not_recorded",
        )
    )
    config_overrides: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Changes to the architecture, such as hidden_dropout_prob=0.1,"
            "attention_probs_dropout_prob=0.1.",
            group=MODEL,
            on_resume="not_recorded",
            parse=parse_overrides,
        ),
    )
    train_batch_size: int = setting(
        32,
        "Examples of a step, over all devices.",
        group=LENGTH,
        bounds="[1, 1048576]",
    )
    eval_batch_size: int = setting(
        32,
        "Examples of a batch of the evaluation.",
        group=EVALUATION,
        bounds="[1, 1048576]",
        on_resume="may_change",
    )
    learning_rate: float = setting(
        5e-5, "Highest rate.", group=LEARNING_RATE, bounds="(0, 1000]"
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "Factor on the rate from each level of the model to the one below; 1: "
        "all have one rate.",
        group=LEARNING_RATE,
        bounds="(0, 1]",
    )
    optimizer: Optimizer = setting(
        "adamw", "LAMB or AdamW, as the original has them.", group=OPTIMIZER
    )
    weight_decay: float = setting(
        0.01,
        "Decay of all weights but biases and LayerNorm.",
        group=OPTIMIZER,
        bounds="[0, 1000]",
    )
    distribution: Distribution = setting(
        "auto",
        "auto: the TPU if --tpu names one, the workers of TF_CONFIG, all GPUs "
        "if there are several, else one device.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    tpu: str | None = setting(
        None,
        "TPU: 'local' on a TPU VM, a name, or a grpc:// address.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    tpu_zone: str | None = setting(
        None,
        "Zone of a TPU by name.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    gcp_project: str | None = setting(
        None,
        "Project of a TPU by name.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    precision: Precision = setting(
        "float32", "Precision of the computation.", group=MACHINE
    )
    rematerialize: bool = setting(
        False,
        "Less memory, about a third slower: keep only the input of each block.",
        group=MACHINE,
    )

    def __post_init__(self) -> None:
        scaled = self.precision == "mixed_float16"
        object.__setattr__(self, "dynamic_loss_scale", scaled)
        super().__post_init__()

    @property
    def free_on_resume(self) -> tuple[str, ...]:
        """Settings that a resumed run may change."""
        return tuple(
            x.name
            for x in settings_of(type(self))
            if x.description.on_resume == "may_change"
        )

    def settings(self) -> dict[str, Any]:
        """Returns the recorded settings, flat and as JSON values."""
        recorded = {}
        for declared in settings_of(type(self)):
            if declared.description.on_resume != "not_recorded":
                value = getattr(self, declared.name)
                if isinstance(value, os.PathLike):
                    value = os.fspath(value)
                recorded[declared.name] = value
        return recorded

    @classmethod
    def default_settings(cls) -> dict[str, Any]:
        """Returns the values of settings that an older run did not have."""
        return {x.name: x.default for x in settings_of(cls) if not x.required}
