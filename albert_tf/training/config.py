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
            "Total number of training steps.", group=LENGTH, bounds="[1, inf)"
        )
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Number of micro-batches into which each device splits its part of a "
        "batch, to save memory.",
        group=LENGTH,
        bounds="[1, inf)",
    )
    seed: int = setting(
        0,
        "Random seed of new weights, example order and dropout.",
        group=LENGTH,
        bounds=f"[0, {2**31})",
    )
    clip_norm: float = setting(
        1.0,
        "Global norm to clip the gradient to; 0: no clipping.",
        group=OPTIMIZER,
        bounds="[0, inf)",
    )
    ema_decay: float = setting(
        0.0,
        "Decay of an exponential moving average of the weights, which is "
        "evaluated and exported instead of them; 0: none.",
        group=OPTIMIZER,
        bounds="[0, 1)",
    )
    jit_compile: bool = setting(
        False,
        "Compile the training step with XLA, on one CPU or GPU (TPUs always "
        "do). Fine-tuning then pads all examples to --max_seq_length.",
        group=MACHINE,
    )
    steps_per_loop: int = setting(
        100,
        "Maximum number of steps that the host launches at a time; fewer if "
        "they take longer than 10 seconds.",
        group=MACHINE,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    eval_steps: int = setting(
        0,
        "Steps between evaluations; 0: only at the end.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    save_checkpoints_steps: int = setting(
        1000,
        "Steps between checkpoints.",
        group=EVALUATION,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    save_checkpoints_minutes: float = setting(
        30.0,
        "Maximum number of minutes between checkpoints, in addition to "
        "--save_checkpoints_steps; 0: no limit.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    keep_checkpoint_max: int = setting(
        5,
        "Number of recent checkpoints to keep.",
        group=EVALUATION,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    best_metric: str = setting(
        "",
        "Evaluation metric whose best checkpoint is kept, too; lower is better "
        "if its name contains 'loss'.",
        group=EVALUATION,
        on_resume="may_change",
    )
    early_stopping_patience: int = setting(
        0,
        "Number of evaluations without improvement after which the run ends; "
        "0: never.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    log_steps: int = setting(
        100,
        "Steps between log lines.",
        group=EVALUATION,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    log_update_norms: bool = setting(
        True,
        "Log each variable's update norm and trust ratio to TensorBoard.",
        group=EVALUATION,
        on_resume="may_change",
    )
    on_divergence: Literal["stop", "rollback"] = setting(
        "stop",
        "What to do if the loss is not finite or exceeds --max_loss: stop, or "
        "rollback, which restores a checkpoint and skips the batches that led "
        "there.",
        group=DIVERGENCE,
        on_resume="may_change",
    )
    max_loss: float = setting(
        0.0,
        "Maximum loss of a step; 0: any finite loss.",
        group=DIVERGENCE,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    rollback_window: int = setting(
        100,
        "Number of batches that --on_divergence=rollback skips, up to the one "
        "that diverged.",
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
        "Global batch size, over all devices.",
        group=LENGTH,
        bounds="[1, 1048576]",
    )
    eval_batch_size: int = setting(
        32,
        "Batch size of evaluations.",
        group=EVALUATION,
        bounds="[1, 1048576]",
        on_resume="may_change",
    )
    learning_rate: float = setting(
        5e-5, "Peak learning rate.", group=LEARNING_RATE, bounds="(0, 1000]"
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "Factor of the learning rate from each layer to the one below; 1: the "
        "same rate for all.",
        group=LEARNING_RATE,
        bounds="(0, 1]",
    )
    optimizer: Optimizer = setting(
        "adamw",
        "lamb or adamw, as implemented by the original.",
        group=OPTIMIZER,
    )
    weight_decay: float = setting(
        0.01,
        "Weight decay of all weights except biases and LayerNorm.",
        group=OPTIMIZER,
        bounds="[0, 1000]",
    )
    distribution: Distribution = setting(
        "auto",
        "Distribution strategy. auto: the TPU of --tpu, the workers of "
        "TF_CONFIG, all GPUs if there are several, otherwise one device.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    tpu: str | None = setting(
        None,
        "TPU to use: 'local' on a TPU VM, a name, or a grpc:// address.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    tpu_zone: str | None = setting(
        None,
        "Zone of the TPU, if --tpu is a name.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    gcp_project: str | None = setting(
        None,
        "Project of the TPU, if --tpu is a name.",
        group=MACHINE,
        on_resume="not_recorded",
    )
    precision: Precision = setting(
        "float32", "Precision of the computation.", group=MACHINE
    )
    rematerialize: bool = setting(
        False,
        "Recompute activations in the backward pass (gradient checkpointing): "
        "less memory, about a third slower.",
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
