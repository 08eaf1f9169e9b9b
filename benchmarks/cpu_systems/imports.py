"""Imports of libraries, to time them."""

from __future__ import annotations

import importlib
import os

import numpy as np

from cpu_systems.task import Task

os.environ["KERAS_BACKEND"] = "tensorflow"


class Import:
    """Imports a name when it is constructed.

    Args:
      folder: Unused.
      threads: Unused.
      precision: Unused.
      name: "module" or "module:attribute"; the attribute may be lazy.
    """

    def __init__(self, folder, threads, precision, name):
        del folder, threads, precision
        module, _, attribute = name.partition(":")
        library = importlib.import_module(module)
        if attribute:
            getattr(library, attribute)
        self.versions: dict[str, str] = {}

    def imports(self, work):
        """Does nothing: the import is done."""
        del work
        return Task(lambda: {"nothing": np.zeros(1)})
