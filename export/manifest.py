"""What an export says of itself, in `export.json` beside the SavedModel."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.text.base_tokenizer import Tokenizer

MANIFEST = "export.json"


def weights_fingerprint(weights: Mapping[str, np.ndarray]) -> str:
    """Returns the sha256 (hex) of named weights; their order does not matter.

    What is hashed, for each name in sorted order: the line
    `<name> <dtype> <shape>` (such as `sop_head/bias float32 [2]`) and a line
    feed, then the values as little-endian bytes in C order.
    """
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        value = np.ascontiguousarray(value)
        header = f"{name} {value.dtype.name} {list(value.shape)}\n"
        digest.update(header.encode("utf-8"))
        digest.update(value.astype(value.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def describe_weights(weights: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns what `export.json` says of weights, by the names it has there.

    Returns:
      "weights", their names; "weights_sha256", see `weights_fingerprint`; and
      "parameters", the first part of a name (encoder, mlm_head) -> how many.
    """
    parameters: dict[str, int] = {}
    for name, value in weights.items():
        part = name.split("/")[0]
        parameters[part] = parameters.get(part, 0) + value.size
    return {
        "weights": list(weights),
        "weights_sha256": weights_fingerprint(weights),
        "parameters": parameters,
    }


def describe_tokenizer(tokenizer: Tokenizer, file: str) -> dict[str, Any]:
    """Returns what `export.json` says of a tokenizer whose file has a name."""
    return {
        "file": file,
        **tokenizer.settings,
        "fingerprint": tokenizer.fingerprint,
    }


def versions() -> dict[str, str]:
    """Returns the versions of what makes an export."""
    return {
        "albert_tf": importlib.metadata.version("albert-tf"),
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }


def write_manifest(folder: pathlib.Path, values: Mapping[str, Any]) -> None:
    """Writes `values` to `folder`."""
    text = json.dumps(values, indent=2) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
