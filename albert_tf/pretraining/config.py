"""Settings of a pretraining run."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from albert_tf.config import AlbertConfig, named_config
from albert_tf.pretraining.phase_config import (
    BATCH_SETTINGS,
    EXAMPLE_SETTINGS,
    Phase,
    as_phases,
    ends_of_phases,
    parse_phases,
)
from albert_tf.settings import (
    EVALUATION,
    LEARNING_RATE,
    LENGTH,
    MODEL,
    check_settings,
    described,
    require,
    setting,
)
from albert_tf.training.config import Optimizer, RunConfig

Schedule = Literal["polynomial", "linear", "cosine", "warmup_stable_decay"]
# "" for none. Records without pairs have no metrics of the sentence order.
Metric = Literal[
    "",
    "loss",
    "mlm_loss",
    "mlm_accuracy",
    "sop_loss",
    "sop_accuracy",
    "nsp_loss",
    "nsp_accuracy",
]


@dataclasses.dataclass(frozen=True)
class ResolvedPhase:
    """The steps of a phase, and its settings.

    Attributes:
      first_step: updates done before it.
      end: updates done after it.
      config: the settings of the run, with those of the phase.
      example_settings: sentence order and masking that replace the records'.
    """

    first_step: int
    end: int
    config: PretrainConfig
    example_settings: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Number of its steps."""
        return self.end - self.first_step

    @property
    def examples(self) -> int:
        """Number of examples of all its steps."""
        return self.steps * self.config.train_batch_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainConfig(RunConfig):
    """Settings of a pretraining run.

    The defaults are the original's (paper, section 4.1). Every field is a flag
    of `albert pretrain`, whose help describes it.
    """

    input: str | Sequence[str] = dataclasses.field(
        metadata=described(
            "Records: a folder made by create-data, or globs separated by "
            "commas; or NAME=WEIGHT:FOLDER,... for a mixture; required.",
            group=MODEL,
            on_resume="not_recorded",
        )
    )
    model: AlbertConfig | None = setting(
        None,
        "Architecture: an official name (`albert analyze parameters` lists "
        "them) or a JSON file, ours or Google's. The default is that of "
        "--init_from or, without it, albert_base_v2.",
        group=MODEL,
        flag="config",
        parse=named_config,
    )
    init_from: str | os.PathLike[str] | None = setting(
        None,
        "Checkpoint of any kind that a new run takes its weights from. Its "
        "model may be deeper, have more groups or share less than the "
        "checkpoint.",
        group=MODEL,
    )
    num_train_steps: int = 125_000
    train_batch_size: int = 4096
    phases: Sequence[Phase | Mapping[str, Any]] = setting(
        (),
        "Parts of the run with other records, batches, sentence order or "
        "masking: a JSON list, or a file that holds one.",
        group=LENGTH,
        parse=parse_phases,
    )
    reading_groups: int = setting(
        1,
        "Parts of each batch that are read from files of their own. Hosts "
        "whose number divides it read only their parts' files; the batches are "
        "the same with any number of hosts.",
        group=MODEL,
        bounds="[1, inf)",
    )
    eval_batch_size: int = 64
    max_eval_steps: int = setting(
        100,
        "Most batches of an evaluation; 0 for all.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    eval_steps: int = 1000
    best_metric: Metric = ""
    optimizer: Optimizer = "lamb"
    learning_rate: float = 0.00176
    num_warmup_steps: int = setting(
        3125,
        "First steps, in which the rate grows to --learning_rate.",
        group=LEARNING_RATE,
        bounds="[0, inf)",
    )
    schedule: Schedule = setting(
        "polynomial",
        "Learning rate after the warm-up. polynomial: the original's, whose "
        "decay begins at step 0, so that the rate drops where the warm-up "
        "ends. linear, cosine: a decay that begins there. warmup_stable_decay: "
        "constant before the last --decay_steps, which can be set on resume.",
        group=LEARNING_RATE,
    )
    start_warmup_step: int = setting(
        0,
        "polynomial: step at which the warm-up begins.",
        group=LEARNING_RATE,
        bounds="[0, inf)",
    )
    poly_power: float = setting(
        1.0,
        "polynomial: power of the decay to 0 at the last step.",
        group=LEARNING_RATE,
        bounds="(0, 100]",
    )
    final_lr_fraction: float = setting(
        0.0,
        "cosine: rate at the last step, as a fraction of the highest.",
        group=LEARNING_RATE,
        bounds="[0, 1]",
    )
    decay_steps: int = setting(
        0,
        "warmup_stable_decay: last steps, in which the rate falls to 0; 0: it "
        "stays constant.",
        group=LEARNING_RATE,
        bounds="[0, inf)",
    )
    # LAMB's paper (arXiv:1904.00962), table 4; the defaults are its row for
    # 4096.
    scale_lr_with_batch: bool = setting(
        False,
        "Learning rate and warm-up are for --reference_batch_size: scale the "
        "rate with the root of the batch size, the warm-up's share of the run "
        "with it.",
        group=LEARNING_RATE,
    )
    reference_batch_size: int = setting(
        4096,
        "See --scale_lr_with_batch.",
        group=LEARNING_RATE,
        bounds="[1, inf)",
    )

    def __post_init__(self) -> None:
        if isinstance(self.phases, (list, tuple)):
            object.__setattr__(self, "phases", tuple(as_phases(self.phases)))
        check_settings(self)
        self._check_phases()
        if self.model is None and self.init_from is None:
            object.__setattr__(
                self, "model", AlbertConfig.from_official("albert_base_v2")
            )
        if self.model is not None and self.config_overrides:
            changed = self.model.replace(**self.config_overrides)
            object.__setattr__(self, "model", changed)
            object.__setattr__(self, "config_overrides", {})
        super().__post_init__()
        for name, schedule, default in (
            ("poly_power", "polynomial", 1.0),
            ("start_warmup_step", "polynomial", 0),
            ("final_lr_fraction", "cosine", 0.0),
            ("decay_steps", "warmup_stable_decay", 0),
        ):
            require(
                self,
                name,
                self.schedule == schedule or getattr(self, name) == default,
                f"{default} unless schedule={schedule}",
            )
        require(
            self,
            "num_warmup_steps",
            not self.scale_lr_with_batch
            or self.resolved_warmup_steps <= self.num_train_steps,
            f"lower: scaled with the batch it is {self.resolved_warmup_steps}, "
            f"more than num_train_steps={self.num_train_steps}",
        )

    def _check_phases(self) -> None:
        if not self.phases:
            return
        ends_of_phases(self.run_phases, self.num_train_steps)
        require(
            self,
            "early_stopping_patience",
            not self.early_stopping_patience,
            "0 with phases: it would end the run before its last phase",
        )
        sizes = {phase.train_batch_size for phase in self.run_phases}
        require(
            self,
            "scale_lr_with_batch",
            not (self.scale_lr_with_batch and sizes - {None}),
            "false if a phase has a train_batch_size",
        )

    @property
    def run_phases(self) -> Sequence[Phase]:
        """The phases; a run without any is one."""
        given = [x for x in self.phases if isinstance(x, Phase)]
        return given or [Phase(steps=self.num_train_steps)]

    def resolved_phases(self) -> list[ResolvedPhase]:
        """Returns the steps and the settings of each phase."""
        phases = self.run_phases
        ends = ends_of_phases(phases, self.num_train_steps)
        return [
            ResolvedPhase(
                first_step,
                end,
                dataclasses.replace(
                    self, phases=(), **phase.given(("input", *BATCH_SETTINGS))
                ),
                phase.given(EXAMPLE_SETTINGS),
            )
            for phase, first_step, end in zip(
                phases, [0, *ends[:-1]], ends, strict=True
            )
        ]

    @property
    def architecture(self) -> AlbertConfig:
        """The architecture, once it is known.

        Raises:
          ValueError: it is that of `init_from`, which was not opened yet.
        """
        if self.model is None:
            raise ValueError(
                "model=None: the architecture of init_from is known once "
                "`resolve_initial_weights` has opened it"
            )
        return self.model

    @property
    def resolved_learning_rate(self) -> float:
        """The highest rate, scaled with the batch size if requested."""
        if not self.scale_lr_with_batch:
            return self.learning_rate
        growth = self.train_batch_size / self.reference_batch_size
        return self.learning_rate * math.sqrt(growth)

    @property
    def resolved_warmup_steps(self) -> int:
        """The steps of warm-up, scaled with the batch size if requested."""
        if not self.scale_lr_with_batch:
            return self.num_warmup_steps
        growth = self.train_batch_size / self.reference_batch_size
        return round(self.num_warmup_steps * growth)

    @property
    def free_on_resume(self) -> tuple[str, ...]:
        """Settings that a resumed run may change.

        Those of the learning rate are subject to `check_rates_so_far`.
        """
        free = super().free_on_resume
        if self.schedule == "warmup_stable_decay":
            return (*free, "num_train_steps", "decay_steps")
        return free

    def settings(self) -> dict[str, Any]:
        """Returns the recorded settings, flat and as JSON values."""
        recorded = super().settings()
        del recorded["phases"]
        if self.phases:
            # Without their records' paths, which may change.
            recorded["phases"] = [
                {
                    "steps": resolved.steps,
                    **phase.given(BATCH_SETTINGS),
                    **resolved.example_settings,
                }
                for phase, resolved in zip(
                    self.run_phases, self.resolved_phases(), strict=True
                )
            ]
        if self.model is not None:
            recorded["model"] = self.model.to_dict()
        if self.scale_lr_with_batch:
            # For the record: they follow from the others.
            recorded |= {
                "resolved_learning_rate": self.resolved_learning_rate,
                "resolved_warmup_steps": self.resolved_warmup_steps,
            }
        return recorded
