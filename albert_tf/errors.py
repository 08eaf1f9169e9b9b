"""Errors that users can correct, and optional packages."""

from __future__ import annotations

import importlib
import re
import types

# Characters that end a line, control a terminal or change text direction.
_CONTROLS = re.compile(
    "[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class InputError(ValueError):
    """Invalid input: a file, a flag, a record.

    The message is one line that says what is wrong, where, and what to do. The
    command line prints it and exits with status 2.
    """

    def __init__(self, message: str = ""):
        super().__init__(printable(message))


class StorageError(OSError):
    """A disk is full. The message names the path that was written."""

    def __init__(self, code: int, message: str):
        super().__init__(code, message)

    def __str__(self) -> str:
        return str(self.strerror)


def printable(text: str) -> str:
    """Returns text on one line, with control characters escaped.

    Newlines, which are common in messages of other libraries, become spaces.
    """
    return _CONTROLS.sub(
        lambda match: match[0].encode("unicode_escape").decode(),
        " ".join(text.split("\n")),
    )


def counted(number: int, noun: str) -> str:
    """Formats a count, such as "1 step" and "2,000 steps"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def import_package(name: str, purpose: str = "scores") -> types.ModuleType:
    """Imports a module of an optional package.

    Args:
      name: name of the module, such as `sklearn.metrics`.
      purpose: what requires it, in the plural, for the error message.

    Raises:
      InputError: if the package is not installed.
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
