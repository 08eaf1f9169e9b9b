"""The settings of a pretraining run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.training.training_config import TrainingConfig

OPTIMIZERS = ("lamb", "adamw")


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
      start_warmup_step: step at which it begins to.
      poly_power: power of the decay to 0 at the last step.
      weight_decay: of all weights but biases and LayerNorm.
      precision: "float32", "mixed_bfloat16" or "mixed_float16".
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
    start_warmup_step: int = 0
    poly_power: float = 1.0
    weight_decay: float = 0.01
    precision: str = "float32"
    distribution: str = "auto"
    tpu: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None

    def __post_init__(self):
        if self.model is None and self.init_from is None:
            raise InputError("model=None must go with init_from=...")
        if self.model is not None and self.model_changes:
            raise InputError("model_changes must go with model=None")
        for name in ("train_batch_size", "eval_batch_size"):
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

    def _require(self, name: str, condition: bool, rule: str) -> None:
        if not condition:
            raise InputError(f"{name}={getattr(self, name)!r} must be {rule}")

    # Settings that a resumed run may change: the weights do not depend on them.
    FREE_ON_RESUME = (
        "eval_batch_size",
        "max_eval_steps",
        "steps_per_loop",
        "log_steps",
        "save_steps",
        "eval_steps",
        "keep_checkpoints",
    )

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
