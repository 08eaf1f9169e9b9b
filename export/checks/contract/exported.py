"""The export that is checked."""

from __future__ import annotations

import functools
import json
import os
import warnings

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers what tokenizers are made of.


class Exported:
    """A folder, what its `export.json` says, and what is loaded from it.

    Attributes:
      folder: its path.
      kind: of the export.

    Args:
      folder: its path.
      expected_file: see `expected`.
    """

    def __init__(self, folder: str, expected_file: str):
        self.folder = folder
        self._expected_file = expected_file
        with open(os.path.join(folder, "export.json"), encoding="utf-8") as f:
            self.manifest = json.load(f)
        self.kind = self.manifest["kind"]

    def load(self) -> str:
        """Loads the model; returns by what."""
        self.root  # noqa: B018  It is kept.
        return f"TensorFlow {tf.__version__}, without albert_tf"

    @functools.cached_property
    def root(self):
        """What `tf.saved_model.load` gives; of LiteRT, the interpreter."""
        if self.kind != "litert":
            return tf.saved_model.load(self.folder)
        with warnings.catch_warnings():
            # It moves to the package ai-edge-litert.
            warnings.filterwarnings("ignore", message=".*tf.lite.Interpreter")
            return tf.lite.Interpreter(self.path(self.manifest["file"]))

    @functools.cached_property
    def expected(self) -> dict[str, dict[str, np.ndarray]]:
        """Set of inputs -> name -> what a source model takes and gives.

        Empty where there is nothing to compare with.
        """
        if not self._expected_file:
            return {}
        sets: dict[str, dict[str, np.ndarray]] = {}
        with np.load(self._expected_file) as arrays:
            for key in arrays:
                name, array = key.split(".")
                sets.setdefault(name, {})[array] = arrays[key]
        return sets

    def path(self, *parts: str) -> str:
        """Returns the path of a file of the export."""
        return os.path.join(self.folder, *parts)

    def files(self) -> list[str]:
        """Returns the paths of all files, sorted."""
        return sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(self.folder)
            for name in names
        )
