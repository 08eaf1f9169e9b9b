"""Origins of checkpoints for model cards."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re

from absl import flags

from albert_tf.data.manifest import DATA_FILE, read_manifest_file
from albert_tf.exporting.manifest import MANIFEST, Origin
from albert_tf.finetuning.model_folder import ModelFolder
from albert_tf.input_files import read_json, read_text
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.run_folder import MODEL_FOLDER
from albert_tf.training.logging import read_metrics

FLAGS_FILE = "flags.txt"

_STEP = re.compile(r"checkpoints/step-(\d+)$")
# Metadata of a model card, as on the Hugging Face hub.
_METADATA = re.compile(r"---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
_LICENSE = re.compile(r"^license: *([\w.-]+) *$", re.MULTILINE)
# Flags without influence on the weights.
_NOT_TRAINING = ("debug", "tpu", "tpu_zone", "gcp_project")


def origin_of_checkpoint(
    checkpoint: Checkpoint, source: str | os.PathLike[str]
) -> Origin:
    """Returns the origin of a checkpoint that is not a fine-tuned model.

    Args:
      checkpoint: the checkpoint of a training run, an export, or any other.
      source: the path or name that it was opened with.
    """
    path = pathlib.Path(checkpoint.source)
    if _STEP.search(checkpoint.source):
        return _origin_of_run(path)
    origin = _origin_of_export(path) or Origin(name=_name_of(source))
    return dataclasses.replace(
        origin,
        source=origin.source or checkpoint.format,
        license=origin.license or _license_of(path),
    )


def origin_of_task(
    folder: ModelFolder, source: str | os.PathLike[str] = ""
) -> Origin:
    """Returns the origin of a fine-tuned model.

    Args:
      folder: folder of the model. Its parent is the folder of the run, unless
        the model was moved.
      source: the path or name that it was opened with, if that is no folder.
    """
    model, task = folder.path, folder.task_config
    run = model.parent
    in_run = model.name == MODEL_FOLDER and (run / FLAGS_FILE).exists()
    if not source or os.path.isdir(source):
        source = run if in_run else model
    return Origin(
        name=_name_of(source),
        source=f"model of albert_tf, fine-tuned for {task.name}",
        training_flags=_flags(run) if in_run else {},
        scores=_finite(task.scores),
        baselines=task.baselines,
        scored_on="the development set, by the run" if task.scores else "",
    )


def _origin_of_run(prefix: pathlib.Path) -> Origin:
    """Returns the origin of a checkpoint `prefix` of a training run."""
    run = prefix.parent.parent
    step = int(prefix.name.removeprefix("step-"))
    data = run / DATA_FILE
    # Later evaluations scored other weights.
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
        data_manifest=read_manifest_file(str(data)) if data.exists() else {},
        training_flags=_flags(run),
        scores=scores,
        scored_on=scored_on,
    )


def _origin_of_export(folder: pathlib.Path) -> Origin | None:
    manifest = folder / MANIFEST
    if not manifest.exists():
        return None
    values = read_json(manifest).get("origin")
    return None if values is None else Origin.from_dict(values, str(manifest))


def _license_of(folder: pathlib.Path) -> str:
    """Returns the license in the metadata of a folder's model card, or ""."""
    card = folder / "README.md"
    if not card.is_file():
        return ""
    # A card in another encoding is no reason to fail.
    metadata = _METADATA.match(card.read_text("utf-8", errors="replace"))
    found = metadata and _LICENSE.search(metadata[1])
    return found[1] if found and found[1] != "other" else ""


def _finite(scores) -> dict[str, float]:
    # Logs have null for values that are not finite.
    return {name: x for name, x in scores.items() if x is not None}


def _name_of(source: str | os.PathLike[str]) -> str:
    source = os.fspath(source)
    if os.path.exists(source):
        source = os.path.abspath(source)  # It may be ".".
    return os.path.basename(os.path.normpath(source))


def _flags(run: pathlib.Path) -> dict[str, str]:
    """Returns the non-empty flags of a run, without those of libraries."""
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
        if not equals:  # A boolean: --name or --noname.
            value = "false" if name.startswith("no") else "true"
            name = name.removeprefix("no")
        if value and name not in others and name not in _NOT_TRAINING:
            found[name] = ",".join(map(_without_folders, value.split(",")))
    return found


def _without_folders(value: str) -> str:
    """Returns a value, but only the last part of an absolute or long path.

    Short relative paths are kept, as names on the hub look alike.
    """
    parts = re.split(r"[/\\]", value)
    if len(parts) <= 2 and parts[0] not in ("", "~", ".."):
        return value
    return next((part for part in reversed(parts) if part), "")
