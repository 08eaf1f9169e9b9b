"""Settings of the training loop, and those shared by all kinds of runs."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.config import parse_overrides
from albert_tf.errors import counted
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

# How runs are evaluated may change when they are resumed. Which devices they
# use is not recorded.
_evaluation = functools.partial(
    setting, group=EVALUATION, on_resume="may_change"
)
_devices = functools.partial(setting, group=MACHINE, on_resume="not_recorded")

# The first and the last batch of a range, from 0.
BatchRange = tuple[int, int]
_RANGE = re.compile(r"(\d{1,15})-(\d{1,15})", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of the training loop, independent of the task.

    Steps are updates of the weights, counted from the start of the run.
    """

    num_train_steps: int = dataclasses.field(
        metadata=described(
            "Steps of the whole run.", group=LENGTH, bounds="[1, inf)"
        )
    )
    max_minutes: float = setting(
        0.0,
        "Time for the whole run, over all commands that resume it; 0: no "
        "limit. The learning rate decays to 0 at the end, over the "
        "--decay_steps of pretrain or else a fifth of all steps; this begins "
        "when the time left is just enough for it.",
        group=LENGTH,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    gradient_accumulation_steps: int = setting(
        1,
        "Micro-batches per device and step; more of them need less memory.",
        group=LENGTH,
        bounds="[1, inf)",
    )
    seed: int = setting(
        0,
        "Seed of new weights, the order of examples and dropout.",
        group=LENGTH,
        bounds=f"[0, {2**31})",
    )
    clip_norm: float = setting(
        1.0,
        "Clip the global norm of the gradient to this value; 0: no clipping.",
        group=OPTIMIZER,
        bounds="[0, inf)",
    )
    ema_decay: float = setting(
        0.0,
        "Decay of the exponential moving average of the weights, which is "
        "evaluated and exported in their place; 0: no average.",
        group=OPTIMIZER,
        bounds="[0, 1)",
    )
    jit_compile: bool = setting(
        False,
        "Compile the train step with XLA, on one CPU or GPU (a TPU always "
        "does); finetune then pads all examples to one length.",
        group=MACHINE,
    )
    steps_per_loop: int = setting(
        100,
        "Maximum number of steps per launch; fewer if they take longer than "
        "10 seconds.",
        group=MACHINE,
        bounds="[1, inf)",
        on_resume="may_change",
    )
    eval_steps: int = _evaluation(
        0,
        "Steps between evaluations; 0: evaluate only at the end.",
        bounds="[0, inf)",
    )
    save_checkpoints_steps: int = _evaluation(
        1000, "Steps between checkpoints.", bounds="[1, inf)"
    )
    save_checkpoints_minutes: float = _evaluation(
        30.0,
        "Save a checkpoint after this many minutes, even if "
        "fewer than --save_checkpoints_steps steps are done; 0: never.",
        bounds="[0, inf)",
    )
    keep_checkpoint_max: int = _evaluation(
        5, "Number of the newest checkpoints to keep.", bounds="[1, inf)"
    )
    best_metric: str = _evaluation(
        "",
        "Also keep the checkpoint with the best value of this evaluation "
        "metric; lower is better if its name contains 'loss'.",
    )
    early_stopping_patience: int = _evaluation(
        0,
        "End the run after this many evaluations without improvement; 0: "
        "never.",
        bounds="[0, inf)",
    )
    log_steps: int = _evaluation(
        100, "Steps between lines of training metrics.", bounds="[1, inf)"
    )
    log_update_norms: bool = _evaluation(
        True,
        "Log the update norm and trust ratio of each variable to TensorBoard.",
    )
    skip_batches: str = setting(
        "",
        "Batches of the data that are not trained on, counted from 0, such as "
        "those before a divergence: 100-200,350-350. They stay skipped when "
        "the run is resumed. A phase begins as many batches later in its data "
        "as were skipped before it.",
        group=DIVERGENCE,
        on_resume="may_change",
    )
    max_loss: float = setting(
        0.0,
        "Largest loss of a step that is not a divergence; 0: any finite loss.",
        group=DIVERGENCE,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    dynamic_loss_scale: bool = setting(
        False,
        "Scale the loss dynamically and skip steps that overflow; true exactly "
        "if precision is mixed_float16.",
        flag=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_early_stopping()
        require(
            self,
            "skip_batches",
            all(first <= last for first, last in self.skipped),
            "ranges such as 100-200,350-350",
        )

    @property
    def skipped(self) -> tuple[BatchRange, ...]:
        """The ranges of `skip_batches`, (first, last); (1, 0) if malformed."""
        parts = self.skip_batches.split(",") if self.skip_batches else []
        found = [_RANGE.fullmatch(part.strip()) for part in parts]
        return tuple(
            (int(match[1]), int(match[2])) if match else (1, 0)
            for match in found
        )

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

        `launch` is the maximum number of steps of the next launch.
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
    """Settings shared by pretraining and fine-tuning."""

    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described(
            "Folder of the run, new or to be resumed; required.",
            group=MODEL,
            on_resume="not_recorded",
        )
    )
    config_overrides: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Changes to the architecture, for example hidden_dropout_prob=0.1,"
            "attention_probs_dropout_prob=0.1.",
            group=MODEL,
            on_resume="not_recorded",
            parse=parse_overrides,
        ),
    )
    train_batch_size: int = setting(
        32,
        "Examples per step, over all devices.",
        group=LENGTH,
        bounds="[1, 1048576]",
    )
    eval_batch_size: int = _evaluation(
        32, "Examples per evaluation batch.", bounds="[1, 1048576]"
    )
    learning_rate: float = setting(
        5e-5, "Peak learning rate.", group=LEARNING_RATE, bounds="(0, 1000]"
    )
    layerwise_lr_decay: float = setting(
        1.0,
        "Factor on the learning rate from each layer to the one below; 1: the "
        "same rate for all layers.",
        group=LEARNING_RATE,
        bounds="(0, 1]",
    )
    optimizer: Optimizer = setting(
        "adamw", "LAMB or AdamW, as in the original.", group=OPTIMIZER
    )
    weight_decay: float = setting(
        0.01,
        "Weight decay of all weights but biases and LayerNorm.",
        group=OPTIMIZER,
        bounds="[0, 1000]",
    )
    bias_correction: bool = setting(
        False,
        "Correct the bias of the optimizer's moments, which start at 0 (Adam, "
        "arXiv:1412.6980). Without it, as in the original, the first updates "
        "are too large.",
        group=OPTIMIZER,
    )
    distribution: Distribution = _devices(
        "auto",
        "auto: the TPU if --tpu is given, the workers in TF_CONFIG if set, all "
        "GPUs if there are several, else one device.",
    )
    tpu: str | None = _devices(
        None, "TPU: 'local' on a TPU VM, its name, or a grpc:// address."
    )
    tpu_zone: str | None = _devices(None, "Zone of a TPU given by name.")
    gcp_project: str | None = _devices(None, "Project of a TPU given by name.")
    precision: Precision = setting(
        "float32", "Keras dtype policy of the model.", group=MACHINE
    )
    rematerialize: bool = setting(
        False,
        "Recompute activations in the backward pass: less memory, but about a "
        "third slower.",
        group=MACHINE,
    )

    def __post_init__(self) -> None:
        scaled = self.precision == "mixed_float16"
        object.__setattr__(self, "dynamic_loss_scale", scaled)
        super().__post_init__()

    def require_warmup_within(self, end: int, advice: str = "lower it") -> None:
        """Checks that the warm-up, until step `end`, ends before the run does.

        Otherwise the learning rate never reaches its peak: an `InputError` that
        ends with `advice`.
        """
        steps = self.num_train_steps
        require(
            self,
            "num_warmup_steps",
            end < steps,
            f"lower: the warm-up would end at step {end:,}, but the run has "
            f"{counted(steps, 'step')}; {advice}",
        )

    @property
    def free_on_resume(self) -> tuple[str, ...]:
        """Names of the settings that may change when a run is resumed."""
        return tuple(
            x.name
            for x in settings_of(type(self))
            if x.description.on_resume == "may_change"
        )

    def settings(self) -> dict[str, Any]:
        """Returns the settings for `run.json`, flat and as JSON values."""
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
        """Returns the defaults, for settings that an older run lacks."""
        return {x.name: x.default for x in settings_of(cls) if not x.required}
