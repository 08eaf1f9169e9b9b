"""Settings of a pretraining run."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from albert_tf.config import AlbertConfig, named_config
from albert_tf.errors import InputError
from albert_tf.pretraining.phase_config import (
    BATCH_SETTINGS,
    DEPTH,
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
    parse_values,
    require,
    setting,
)
from albert_tf.training.config import Optimizer, RunConfig

Schedule = Literal["polynomial", "linear", "cosine", "warmup_stable_decay"]

_rate = functools.partial(setting, group=LEARNING_RATE)


@dataclasses.dataclass(frozen=True)
class ResolvedPhase:
    """A phase with its steps and complete settings.

    Attributes:
      first_step: number of updates before the phase.
      end: number of updates after it.
      config: the settings of the run, overridden by those of the phase. Its
        model has the phase's depth.
      example_settings: `EXAMPLE_SETTINGS` that override those of the records.
    """

    first_step: int
    end: int
    config: PretrainConfig
    example_settings: Mapping[str, Any]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.end - self.first_step

    @property
    def examples(self) -> int:
        """Number of examples in all steps."""
        return self.steps * self.config.train_batch_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainConfig(RunConfig):
    """Settings of a pretraining run.

    The defaults are the original's (paper, section 4.1). Every field is a flag
    of `albert pretrain`, whose help describes it.
    """

    input: str | Sequence[str] = dataclasses.field(
        metadata=described(
            "Records: a folder made by create-data, comma-separated globs, or "
            "NAME=WEIGHT:FOLDER,... for a mixture; required.",
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
        "Checkpoint in any format, or a name such as albert_tiny_en, to "
        "initialize the weights of a new run from. "
        "The model may be deeper, have more groups or share less than the "
        "checkpoint.",
        group=MODEL,
    )
    init_moments: bool = setting(
        False,
        "Also take the optimizer's moments from --init_from, a pretraining "
        "run. Weights that are copied have their moments copied, too.",
        group=MODEL,
    )
    objective: str = setting(
        "mlm",
        "mlm: masked language modeling. rtd: replaced-token detection "
        "(ELECTRA). Both with the sentence order of the records. Or one that "
        "--objective_module defines.",
        group=MODEL,
    )
    objective_settings: Mapping[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata=described(
            "Settings of the objective as NAME=VALUE,...; rtd has "
            "generator_hidden_size, generator_num_hidden_layers and "
            "discriminator_weight.",
            group=MODEL,
            parse=functools.partial(parse_values, "--objective_settings"),
        ),
    )
    objective_module: str | None = setting(
        None,
        "Python file that defines objectives; it is executed.",
        group=MODEL,
        on_resume="not_recorded",
    )
    num_train_steps: int = 125_000
    train_batch_size: int = 4096
    phases: Sequence[Phase | Mapping[str, Any]] = setting(
        (),
        "Phases of the run with different records, batches, depth, sentence "
        "order or masking: a JSON list, or a file with one.",
        group=LENGTH,
        parse=parse_phases,
    )
    reading_groups: int = setting(
        1,
        "Read each batch as this many equal parts, from disjoint files. If the "
        "number of hosts divides it, each host reads only its own files. The "
        "batches do not depend on the number of hosts.",
        group=MODEL,
        bounds="[1, inf)",
    )
    eval_batch_size: int = 64
    max_eval_steps: int = setting(
        100,
        "Maximum number of batches per evaluation; 0: all.",
        group=EVALUATION,
        bounds="[0, inf)",
        on_resume="may_change",
    )
    eval_steps: int = 1000
    optimizer: Optimizer = "lamb"
    learning_rate: float = 0.00176
    num_warmup_steps: int = _rate(
        3125, "Steps of linear warm-up to --learning_rate.", bounds="[0, inf)"
    )
    schedule: Schedule = _rate(
        "polynomial",
        "Learning rate after the warm-up. polynomial: that of the original, "
        "whose decay starts at step 0, so that the rate drops where the "
        "warm-up ends. linear, cosine: decay from the end of the warm-up. "
        "warmup_stable_decay: constant until the last --decay_steps, which can "
        "be set when the run is resumed.",
    )
    start_warmup_step: int = _rate(
        0, "polynomial: step at which the warm-up starts.", bounds="[0, inf)"
    )
    poly_power: float = _rate(
        1.0, "polynomial: power of the decay to 0.", bounds="(0, 100]"
    )
    final_lr_fraction: float = _rate(
        0.0,
        "cosine: final learning rate, as a fraction of the peak.",
        bounds="[0, 1]",
    )
    decay_steps: int = _rate(
        0,
        "warmup_stable_decay: number of steps at the end in which the rate "
        "decays to 0; 0: no decay.",
        bounds="[0, inf)",
    )
    # LAMB paper (arXiv:1904.00962), table 4; the defaults are the row for 4096.
    scale_lr_with_batch: bool = _rate(
        False,
        "Scale the learning rate with the square root of the batch size, and "
        "the warm-up steps linearly, from --reference_batch_size.",
    )
    reference_batch_size: int = _rate(
        4096,
        "Batch size that --learning_rate and --num_warmup_steps are for; see "
        "--scale_lr_with_batch.",
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
        require(
            self,
            "init_moments",
            self.init_from is not None or not self.init_moments,
            "false without init_from",
        )
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
        self.require_warmup_within(
            self.start_warmup_step + self.resolved_warmup_steps,
            "a tenth of the steps is usual, "
            f"num_warmup_steps={self.num_train_steps // 10}",
        )

    def _check_phases(self) -> None:
        if not self.phases:
            return
        for number, phase in enumerate(self.run_phases):
            model, depth = self.model, phase.num_hidden_layers
            if model is None or depth is None:
                continue
            if model.num_hidden_groups > 1 or model.sharing != "all":
                raise InputError(
                    f"phases[{number}]: num_hidden_layers={depth} requires "
                    "num_hidden_groups=1 and sharing=all, so that the weights "
                    "stay the same; to grow others, start a new run with "
                    "--init_from and --init_moments"
                )
            try:
                model.replace(num_hidden_layers=depth)
            except InputError as error:
                raise InputError(f"phases[{number}]: {error}") from None
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
        """The phases; a run without phases is a single one."""
        given = [x for x in self.phases if isinstance(x, Phase)]
        return given or [Phase(steps=self.num_train_steps)]

    def resolved_phases(self) -> list[ResolvedPhase]:
        """Returns all phases with their steps and complete settings."""
        phases = self.run_phases
        ends = ends_of_phases(phases, self.num_train_steps)
        return [
            ResolvedPhase(
                first_step,
                end,
                dataclasses.replace(
                    self,
                    phases=(),
                    model=self.model
                    and self.model.replace(**phase.given(DEPTH)),
                    **phase.given(("input", *BATCH_SETTINGS)),
                ),
                phase.given(EXAMPLE_SETTINGS),
            )
            for phase, first_step, end in zip(
                phases, [0, *ends[:-1]], ends, strict=True
            )
        ]

    @property
    def architecture(self) -> AlbertConfig:
        """The architecture of the model.

        Raises:
          ValueError: if it is that of `init_from`, which is not opened yet.
        """
        if self.model is None:
            raise ValueError(
                "model=None: the architecture of init_from is known once "
                "`resolve_initial_weights` has opened it"
            )
        return self.model

    @property
    def deepest_architecture(self) -> AlbertConfig:
        """The architecture with the largest depth of all phases."""
        phases = [x.config.architecture for x in self.resolved_phases()]
        return max(phases, key=lambda x: x.num_hidden_layers)

    @property
    def _growth(self) -> float:
        """The factor on the batch size that learning rates are scaled for."""
        if not self.scale_lr_with_batch:
            return 1.0
        return self.train_batch_size / self.reference_batch_size

    @property
    def resolved_learning_rate(self) -> float:
        """The peak learning rate, scaled with the batch size if requested."""
        return self.learning_rate * math.sqrt(self._growth)

    @property
    def resolved_warmup_steps(self) -> int:
        """The warm-up steps, scaled with the batch size if requested."""
        return round(self.num_warmup_steps * self._growth)

    @property
    def free_on_resume(self) -> tuple[str, ...]:
        """Names of the settings that may change when a run is resumed.

        Those of the length are also checked by `check_past`.
        """
        free = super().free_on_resume
        if self.schedule == "warmup_stable_decay":
            return (*free, "num_train_steps", "decay_steps", "phases")
        return free

    def settings(self) -> dict[str, Any]:
        """Returns the settings for `run.json`, flat and as JSON values."""
        recorded = super().settings()
        del recorded["phases"]
        if self.phases:
            # Without the paths of records, which may change.
            recorded["phases"] = [
                {
                    "steps": resolved.steps,
                    **phase.given(BATCH_SETTINGS),
                    **phase.given(DEPTH),
                    **resolved.example_settings,
                }
                for phase, resolved in zip(
                    self.run_phases, self.resolved_phases(), strict=True
                )
            ]
        if self.model is not None:
            recorded["model"] = self.model.to_dict()
        if self.scale_lr_with_batch:
            # They follow from the other settings; recorded for the reader.
            recorded |= {
                "resolved_learning_rate": self.resolved_learning_rate,
                "resolved_warmup_steps": self.resolved_warmup_steps,
            }
        return recorded
