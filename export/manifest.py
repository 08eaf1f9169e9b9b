"""`export.json`: a machine-readable description of an export."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import keras
import numpy as np
import tensorflow as tf

from albert_tf.data.manifest import DataDescription
from albert_tf.errors import InputError
from albert_tf.exporting.check_program import weights_fingerprint
from albert_tf.exporting.config import Kind, Layout, Quantization
from albert_tf.input_files import check_not_web_address, read_json, sha256
from albert_tf.schema import check_type
from albert_tf.text.base_tokenizer import Tokenizer

MANIFEST = "export.json"


def describe_weights(weights: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Describes weights for `export.json`.

    Returns:
      A dict of "weights", their names; "weights_sha256", see
      `weights_fingerprint`; and "parameters", the number of parameters of each
      component (encoder, mlm_head).
    """
    parameters: dict[str, int] = {}
    for name, value in weights.items():
        component = name.split("/")[0]
        parameters[component] = parameters.get(component, 0) + value.size
    return {
        "weights": list(weights),
        "weights_sha256": weights_fingerprint(weights),
        "parameters": parameters,
    }


def describe_file(path: pathlib.Path) -> dict[str, Any]:
    """Describes a file for `export.json`: its "bytes" and "sha256"."""
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def describe_files(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Describes all files in a folder for `export.json`, by relative path."""
    return {
        path.relative_to(folder).as_posix(): describe_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def describe_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Describes a tokenizer for `export.json`."""
    return {
        "file": tokenizer.file_name,
        **tokenizer.settings,
        "fingerprint": tokenizer.fingerprint,
    }


class _Signature(TypedDict):
    inputs: list[str]
    outputs: list[str]


class _File(TypedDict):
    sha256: str


class _Task(TypedDict, total=False):
    settings: Mapping[str, Any]


class _ExportExtras(TypedDict, total=False):
    config: Mapping[str, Any]
    task: _Task
    signatures: Mapping[str, _Signature]
    weights: list[str]
    weights_sha256: str
    packed: bool
    layout: Layout
    seq_length: int
    # Of models for other runtimes.
    file: str
    files: Mapping[str, _File]
    sha256: str
    quantization: Quantization
    mediapipe_task: str


class _Tokenizer(TypedDict):
    file: str
    fingerprint: str


class _Export(_ExportExtras):
    """The entries of `export.json` that are read; it has others."""

    kind: Kind
    tokenizer: _Tokenizer | None


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Returns the versions of the libraries that write an export.

    Args:
      packages: those besides Keras and TensorFlow.
    """
    return {
        "albert_tf": importlib.metadata.version("albert-tf"),
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        **{x: importlib.metadata.version(x) for x in packages},
    }


def write_manifest(folder: pathlib.Path, values: Mapping[str, Any]) -> None:
    """Writes `export.json` to a folder."""
    text = json.dumps(values, indent=2) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def read_export(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the `export.json` of an export.

    Raises:
      InputError: if `folder` is not an export, or its `export.json` cannot be
        read.
    """
    check_not_web_address(folder, "the folder of a finished `albert export`")
    path = pathlib.Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(
            f"check={os.fspath(folder)}: no {MANIFEST}; expected the folder of "
            "a finished `albert export`"
        )
    values = read_json(path)
    check_type(values, _Export, str(path))
    return values


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """How a model was trained, as far as it is known.

    No field may contain a path of the exporting machine.

    Attributes:
      name: name of the model, such as "albert_tiny".
      source: kind of checkpoint, such as "training run of albert_tf, step 9".
      data_manifest: manifest of the pretraining records, as `create-data` wrote
        it.
      training_flags: flags of the training run, name -> value.
      scores: metric -> score on held-out or development data.
      baselines: scores of trivial predictions on the same data, by name.
      scored_on: data and program of the scores, such as "the development set,
        by albert finetune".
      license: an SPDX identifier, or a sentence; empty if unknown.
    """

    name: str = "albert"
    source: str = ""
    data_manifest: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    training_flags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)
    baselines: Mapping[str, Mapping[str, float]] = dataclasses.field(
        default_factory=dict
    )
    scored_on: str = ""
    license: str = ""

    @property
    def all_scores(self) -> dict[str, float]:
        """The scores, and then those of the baselines."""
        return dict(self.scores) | {
            f"{metric}: {name}": score
            for name, scores in self.baselines.items()
            for metric, score in scores.items()
        }

    def with_license(self, license: str) -> Origin:
        """Returns a copy with another license, unless it is empty."""
        return dataclasses.replace(self, license=license or self.license)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON values, without the lists of files in the manifest."""
        manifest = dict(self.data_manifest)
        manifest.pop("inputs", None)
        if "splits" in manifest:
            manifest["splits"] = {
                name: {k: v for k, v in split.items() if k != "files"}
                for name, split in manifest["splits"].items()
            }
        return dataclasses.asdict(self) | {"data_manifest": manifest}

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], path: str = MANIFEST
    ) -> Origin:
        """Creates an origin from `to_dict()`. Unknown fields are ignored.

        Args:
          values: the fields.
          path: path of the file that has them, for error messages.

        Raises:
          InputError: if a field has the wrong type.
        """
        check_type(values, cls, f"{path}: origin")
        if data := values.get("data_manifest"):
            source = f"{path}: origin.data_manifest"
            check_type(data, DataDescription, source)
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{k: v for k, v in values.items() if k in names})


UNKNOWN = Origin()
