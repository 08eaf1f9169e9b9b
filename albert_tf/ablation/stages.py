"""Runs of ablation studies, and the stages of their training."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable

import numpy as np

from albert_tf.ablation.config import ScaleSettings
from albert_tf.ablation.study import Study, StudyRow
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.growing import grow
from albert_tf.interop.names import tensors_of
from albert_tf.models.flops import pretraining_step_flops

_NO_WEIGHTS = np.empty(0, np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A row of a study, trained with one seed."""

    study: Study
    row: StudyRow
    seed: int

    def __str__(self) -> str:
        return f"{self.study.name}: {self.row.name}, seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class Stage:
    """A model in the training of a run: its only one, unless it is grown.

    `name` is that of the stage's folder, equal for equal stages; `before` that
    of the stage whose weights it starts from.
    """

    name: str
    model: AlbertConfig
    steps: int
    before: str | None


def stages_of(run: Run, scale: ScaleSettings) -> list[Stage]:
    """Returns the models that a run trains one after another.

    All rows of a study have the same steps in total or, with `equal_compute`,
    as many floating-point operations as the base model has in these steps.
    """
    models = run.row.stages(scale.base)
    total = scale.num_train_steps
    if run.study.equal_compute:
        base, own = (
            _example_flops(model, run.row, scale)
            for model in (scale.base, models[-1])
        )
        total = round(total * base / own)
    stages: list[Stage] = []
    for number, model in enumerate(models):
        first, end = (total * x // len(models) for x in (number, number + 1))
        steps = max(1, end - first)
        before = stages[-1].name if stages else None
        name = _name(run, scale.base, model, steps, before)
        stages.append(Stage(name, model, steps, before))
    return stages


def check_stages(row: StudyRow, scale: ScaleSettings) -> None:
    """Checks that a row's models can be trained, each from the one before."""
    before: Checkpoint | None = None
    for model in row.stages(scale.base):
        name = f"row {row.name!r}"
        if model.vocab_size != scale.base.vocab_size:
            raise InputError(
                f"{name}: vocab_size={model.vocab_size} must be "
                f"{scale.base.vocab_size}, as in the records"
            )
        if model.max_position_embeddings < scale.max_seq_length:
            raise InputError(
                f"{name}: max_position_embeddings="
                f"{model.max_position_embeddings} must be at least "
                f"{scale.max_seq_length}, as in the records"
            )
        if model.trained_positions is not None:
            raise InputError(
                f"{name}: trained_positions={model.trained_positions} is a "
                "result of training; leave it out"
            )
        if before is not None:
            grow(before, model)
        components = frozenset(("encoder", "projection"))
        before = Checkpoint(
            config=model,
            components=components,
            arrays={
                tensor.path: _NO_WEIGHTS
                for tensor in tensors_of(model, components)
            },
            source=f"{name}: the model that it is grown from",
        )


def training_flops(
    stages: Iterable[Stage], row: StudyRow, scale: ScaleSettings
) -> int:
    """Returns the floating-point operations of all steps, by formula."""
    return scale.train_batch_size * sum(
        stage.steps * _example_flops(stage.model, row, scale)
        for stage in stages
    )


def _example_flops(
    model: AlbertConfig, row: StudyRow, scale: ScaleSettings
) -> int:
    return pretraining_step_flops(
        model,
        scale.max_seq_length,
        scale.max_predictions_per_seq,
        row.sentence_order != "none",
    )


def _name(
    run: Run,
    base: AlbertConfig,
    model: AlbertConfig,
    steps: int,
    before: str | None,
) -> str:
    defaults = base.to_dict()
    values = model.to_dict()
    changes = [f"{x}={y}" for x, y in values.items() if y != defaults[x]]
    if before:
        changes.append(f"from-{zlib.crc32(before.encode()):08x}")
    return "-".join(
        [
            *(changes or ["base"]),
            run.row.sentence_order,
            f"{steps}-steps",
            f"seed-{run.seed}",
        ]
    )
