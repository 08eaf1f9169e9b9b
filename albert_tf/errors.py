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


def import_package(name: str) -> types.ModuleType:
    """Returns a module of a package that the extra `tasks` installs.

    Args:
      name: such as `sklearn.metrics`.

    Raises:
      InputError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"scores need {name.partition('.')[0]}, which cannot be imported "
            f"({error}): pip install 'albert-tf[tasks]'"
        ) from None
