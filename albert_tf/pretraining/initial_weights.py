"""Initial weights of a run, from a checkpoint in any format."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input_files import read_text
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.growing import grow
from albert_tf.interop.names import ANY_HEAD, TASK_HEADS
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import FORMAT as RUN_FORMAT
from albert_tf.models.base import AlbertModel
from albert_tf.models.pretrained import assign_weights
from albert_tf.objectives.objective import Objective
from albert_tf.objectives.registry import objective_class
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.optimizers import UPDATES
from albert_tf.training.run import recorded_architecture

REPORT_FILE = "init.txt"


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """A checkpoint that a new run starts from.

    Attributes:
      path: its path, as given in the settings.
      checkpoint: the checkpoint, grown to the architecture of the run.
      moments: with `init_moments`, the moments of its weights, grown likewise,
        under their names in checkpoints of runs.
      trained_positions: number of positions that it was trained on.
      digest: SHA-256 of all weights.
      report: which weights are loaded, skipped and newly initialized.
      kept_heads: the heads of the run's objective, if it has been trained with
        it.
    """

    path: str
    checkpoint: Checkpoint
    moments: Mapping[str, np.ndarray]
    trained_positions: int
    digest: str
    report: str
    kept_heads: tuple[str, ...]

    def assign(self, model: AlbertModel) -> None:
        """Assigns the weights to a model, whose other heads are kept."""
        assign_weights(
            model, self.checkpoint, new_head=True, kept_heads=self.kept_heads
        )

    def check_unchanged(self, run_dir: str | os.PathLike[str]) -> None:
        """Checks that the run in a folder was started with the same weights."""
        run_dir = os.fspath(run_dir)
        report = os.path.join(run_dir, REPORT_FILE)
        if tf.io.gfile.exists(report) and self.digest not in read_text(report):
            raise InputError(
                f"init_from={self.path}: has changed since the run in {run_dir}"
                f" was started: the sha256 of its weights is {self.digest}, "
                f"not that in {report}; restore it or use another folder"
            )


def resolve_initial_weights(
    config: PretrainConfig,
) -> tuple[PretrainConfig, InitialWeights | None]:
    """Opens the checkpoint of `init_from` and determines the architecture.

    Without `model`, the architecture is that of the checkpoint, with
    `config_overrides`. A run that already has checkpoints resumes from them and
    no longer needs `init_from`.

    Returns:
      The settings with an architecture, and the weights; these are None without
      `init_from`, or if the run is resumed.
    """
    if config.init_from is None:
        return config, None
    path = os.fspath(config.init_from)
    if recorded := recorded_architecture(config):
        model = config.model or recorded
        return dataclasses.replace(
            config, model=model, config_overrides={}
        ), None
    checkpoint = open_checkpoint(path, head=ANY_HEAD)
    positions = (
        checkpoint.config.trained_positions
        or checkpoint.config.max_position_embeddings
    )
    # `trained_positions` describes the checkpoint, not the architecture.
    architecture = checkpoint.config.replace(trained_positions=None)
    model = config.model or architecture.replace(**config.config_overrides)
    moments = {}
    if config.init_moments:
        moments = _grown_moments(checkpoint, model)
    checkpoint = grow(checkpoint, model)
    config = dataclasses.replace(config, model=model, config_overrides={})
    digest = _digest(checkpoint)
    objective = objective_class(config.objective)
    report = _report(checkpoint, objective, moments, digest)
    kept = objective.trained_heads(checkpoint)
    return config, InitialWeights(
        path, checkpoint, moments, positions, digest, report, kept
    )


def _grown_moments(
    checkpoint: Checkpoint, model: AlbertConfig
) -> dict[str, np.ndarray]:
    """Reads the moments of a pretraining run, which grow like the weights."""
    if checkpoint.format != RUN_FORMAT:
        raise InputError(
            f"init_from={checkpoint.source} is not a checkpoint of a "
            "pretraining run, and has no moments; leave out init_moments"
        )
    values = read_checkpoint(checkpoint.source)
    # For bias correction: the moments are not those of a first update.
    updates = values.get("optimizer/updates", values["step"])
    moments = {"optimizer/updates": updates}
    slots = {x.split("/")[-1] for x in values if x.startswith("optimizer/")}
    for moment in sorted(slots - {UPDATES}):
        # Weights that the run did not train have none.
        arrays = {
            path: values.get(
                f"optimizer/{path}/{moment}",
                np.zeros_like(values[f"model/{path}"]),
            )
            for path in checkpoint.arrays
        }
        # Without the note that its positions are copies, which these are not.
        read = dataclasses.replace(checkpoint, arrays=arrays, notes=())
        for path, array in grow(read, model).arrays.items():
            moments[f"optimizer/{path}/{moment}"] = array
        for path in checkpoint.objective_arrays:
            name = f"optimizer/{path}/{moment}"
            if name in values:
                moments[name] = values[name]
    return moments


def _report(
    checkpoint: Checkpoint,
    objective: type[Objective],
    moments: Mapping[str, np.ndarray],
    digest: str,
) -> str:
    lines = [checkpoint.report()]
    if moments:
        lines.append(f"moments: {len(moments)} tensors of that run")
    elif checkpoint.format == RUN_FORMAT:
        lines.append("moments: zero; --init_moments takes those of the run")
    others = checkpoint.objective_heads
    foreign = {*TASK_HEADS}.difference(objective.trained_heads(checkpoint))
    known = {*checkpoint.components, *others} - foreign
    used = {*objective.heads} - foreign
    unused = {*checkpoint.heads, *others} - used
    if unused:
        names = ", ".join(sorted(unused))
        lines.append(f"skipped (unused by this model): {names}")
    new = [x for x in ("pooler", *objective.heads) if x not in known]
    if new:
        lines.append(f"newly initialized: {', '.join(new)}")
    lines.append(f"sha256 of the weights: {digest}")
    return "\n".join(lines)


def _digest(checkpoint: Checkpoint) -> str:
    """Returns the SHA-256 of all weights, sorted by name."""
    digest = hashlib.sha256()
    for arrays in (checkpoint.arrays, checkpoint.objective_arrays):
        for path in sorted(arrays):
            digest.update(path.encode())
            digest.update(np.ascontiguousarray(arrays[path]).data)
    return digest.hexdigest()
