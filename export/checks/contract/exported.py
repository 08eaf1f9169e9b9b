"""The export that is checked."""

from __future__ import annotations

import functools
import json
import os
import warnings

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers what tokenizers are made of.

from .findings import Skipped, expect


class Exported:
    """A folder, what its `export.json` says, and what is loaded from it.

    Attributes:
      folder: its path.
      kind: of the export.

    Args:
      folder: its path.
      expected_file: sets of inputs with what a source model makes of them, as
        arrays named `<set>.<name>`; "" for none.
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

    def expected(self, inputs: str) -> dict[str, np.ndarray]:
        """Returns name -> what a source model takes and gives, of some inputs.

        Args:
          inputs: the name of a set of them, such as "text".

        Raises:
          Skipped: there is no model to compare with.
        """
        if not self._expected_file:
            raise Skipped("no --model to compare with")
        with np.load(self._expected_file) as arrays:
            return {
                key.removeprefix(f"{inputs}."): arrays[key]
                for key in arrays
                if key.startswith(f"{inputs}.")
            }

    def signature(self, name: str = "serving_default"):
        """Returns a signature of a SavedModel.

        Raises:
          Failed: there is none of this name.
        """
        found = self.root.signatures
        expect(name in found, f"there is no signature {name}")
        return found[name]

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
