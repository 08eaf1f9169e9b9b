"""Errors that users can correct, and packages they may lack."""

from __future__ import annotations

import importlib
import types


class InputError(ValueError):
    """Something the user gave cannot be used: a file, a flag, a record.

    The message is one line that says what is wrong, where, and what to do. The
    command line prints it and exits with status 2.
    """


class StorageError(OSError):
    """A disk is full; the message names what was to be written."""

    def __init__(self, code: int, message: str):
        super().__init__(code, message)

    def __str__(self) -> str:
        return str(self.strerror)


def import_package(name: str, purpose: str = "scores") -> types.ModuleType:
    """Returns a module of a package that is not always installed.

    Args:
      name: such as `sklearn.metrics`.
      purpose: what it is for.

    Raises:
      InputError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        package = name if package == "backports" else package
        project = {"sklearn": "scikit-learn"}.get(package, package)
        project = project.replace("tensorflow_", "tensorflow-")
        raise InputError(
            f"{purpose} need {package}, which cannot be imported ({error}): "
            f"pip install {project}"
        ) from None
