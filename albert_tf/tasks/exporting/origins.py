"""What a checkpoint tells of its own making, for the model card."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re

from absl import flags

from albert_tf.export.manifest import MANIFEST
from albert_tf.export.origin import Origin
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.config_files import read_json
from albert_tf.interop.formats.run_folder import MODEL_FOLDER, fine_tuned_model
from albert_tf.interop.opening import open_checkpoint
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.finetuning.model_folder import read_description
from albert_tf.tasks.pretrain import DATA_FILE
from albert_tf.training.files import read_text
from albert_tf.training.metrics_log import read_metrics

FLAGS_FILE = "flags.txt"

_STEP = re.compile(r"checkpoints/step-(\d+)$")
# Where a run ran, and how it spoke: no part of the training.
_NOT_TRAINING = ("debug", "tpu", "tpu_zone", "gcp_project")


def origin_of(
    source: str | os.PathLike[str],
    config: ExportConfig,
    checkpoint: Checkpoint | None = None,
) -> Origin:
    """Returns the origin of a checkpoint.

    Args:
      source: a run's folder, or whatever `open_checkpoint` takes.
      config: of the export; has the licence.
      checkpoint: the source, where it is open already.
    """
    model = fine_tuned_model(source)
    if model is not None:
        origin = _of_fine_tuned(model)
    else:
        origin = _of_checkpoint(checkpoint or open_checkpoint(source), source)
    return dataclasses.replace(origin, licence=config.licence or origin.licence)


def _of_checkpoint(
    checkpoint: Checkpoint, source: str | os.PathLike[str]
) -> Origin:
    path = pathlib.Path(checkpoint.source)
    if _STEP.search(checkpoint.source):
        return _of_run(path)
    origin = _of_export(path) or Origin(name=_name_of(source))
    return dataclasses.replace(
        origin, source=origin.source or checkpoint.format
    )


def _of_run(prefix: pathlib.Path) -> Origin:
    """Returns the origin of a checkpoint of a pretraining run.

    Args:
      prefix: of the checkpoint, below the run's folder.
    """
    run = prefix.parent.parent
    step = int(_STEP.search(prefix.as_posix())[1])
    data = run / DATA_FILE
    # What came later is of other weights.
    evaluations = [
        line
        for line in read_metrics(run)
        if line["split"] == "eval" and line["step"] <= step
    ]
    scores, scored_on = {}, ""
    if evaluations:
        scores = _finite(evaluations[-1]["values"])
        scored_on = (
            f"held-out documents, by the run at step {evaluations[-1]['step']}"
        )
    return Origin(
        name=_name_of(run),
        source=f"training run of albert_tf, step {step}",
        data_manifest=json.loads(read_text(data)) if data.exists() else {},
        training_flags=_flags(run),
        scores=scores,
        scored_on=scored_on,
    )


def _of_fine_tuned(model: pathlib.Path) -> Origin:
    """Returns the origin of a fine-tuned model.

    Args:
      model: its folder; that of its run is the one above, unless it was moved.
    """
    description = read_description(model)
    run = model.parent
    in_run = model.name == MODEL_FOLDER and (run / FLAGS_FILE).exists()
    return Origin(
        name=_name_of(run if in_run else model),
        source=f"model of albert_tf, fine-tuned for {description.name}",
        training_flags=_flags(run) if in_run else {},
        scores=_finite(description.scores),
        scored_on="the development set, by the run"
        if description.scores
        else "",
    )


def _of_export(folder: pathlib.Path) -> Origin | None:
    """Returns what an export of ours says; None where it is something else."""
    manifest = folder / MANIFEST
    if not manifest.exists():
        return None
    values = read_json(manifest).get("origin")
    return Origin.from_dict(values) if isinstance(values, dict) else None


def _finite(scores) -> dict[str, float]:
    # In a log, what is not finite is null.
    return {name: x for name, x in scores.items() if x is not None}


def _name_of(source: str | os.PathLike[str]) -> str:
    source = os.fspath(source)
    if os.path.exists(source):
        source = os.path.abspath(source)  # It may be ".".
    return os.path.basename(os.path.normpath(source))


def _flags(run: pathlib.Path) -> dict[str, str]:
    """Returns the flags of a run that are set, without those of libraries."""
    path = run / FLAGS_FILE
    if not path.exists():
        return {}
    others = {
        flag.name
        for module, defined in flags.FLAGS.flags_by_module_dict().items()
        if not module.startswith("albert")
        for flag in defined
    }
    found = {}
    for line in read_text(path).splitlines():
        name, equals, value = line.removeprefix("--").partition("=")
        if not equals:  # absl writes booleans so.
            value = "false" if name.startswith("no") else "true"
            name = name.removeprefix("no")
        if value and name not in others and name not in _NOT_TRAINING:
            found[name] = ",".join(map(_without_place, value.split(",")))
    return found


def _without_place(value: str) -> str:
    """Returns a value, or the last part of a path that says where it lies.

    Short relative ones are kept: names on a hub look like them.
    """
    parts = re.split(r"[/\\]", value)
    if len(parts) <= 2 and parts[0] not in ("", "~", ".."):
        return value
    return next((part for part in reversed(parts) if part), "")
