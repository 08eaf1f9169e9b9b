"""Libraries that are only imported, to time how long that takes."""

from __future__ import annotations

import importlib
import os

import numpy as np

from cpu_systems.task import Task

os.environ["KERAS_BACKEND"] = "tensorflow"


class Import:
    """Imports a name when it is made.

    Args:
      folder: unused, as are threads and precision.
      threads: unused.
      precision: unused.
      name: "module" or "module:attribute", which may be loaded on first use.
    """

    def __init__(self, folder, threads, precision, name):
        del folder, threads, precision
        module, _, attribute = name.partition(":")
        library = importlib.import_module(module)
        if attribute:
            getattr(library, attribute)
        self.versions: dict[str, str] = {}

    def imports(self, work):
        """Does nothing more."""
        del work
        return Task(lambda: {"nothing": np.zeros(1)})
