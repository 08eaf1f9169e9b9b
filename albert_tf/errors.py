"""Errors that users can correct, and optional packages."""

from __future__ import annotations

import importlib
import re
import types
from collections.abc import Sequence

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


class ReadError(InputError):
    """A file that the system cannot read, perhaps only for the moment."""


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


# Package -> what to install, where its name is another.
_PROJECTS = {
    "sklearn": "scikit-learn",
    "tensorflow_datasets": "tensorflow-datasets importlib_resources",
    # It imports pkg_resources, which later ones no longer have.
    "tensorflow_hub": "tensorflow-hub 'setuptools<80.9'",
}


def import_package(name: str, purpose: str = "scores") -> types.ModuleType:
    """Imports a module of an optional package; see `import_packages`."""
    return import_packages([name], purpose)[0]


def import_packages(
    names: Sequence[str], purpose: str
) -> list[types.ModuleType]:
    """Imports modules of optional packages.

    Args:
      names: names of the modules, such as `sklearn.metrics`.
      purpose: what requires them, in the plural, for the error message.

    Raises:
      InputError: if a package is not installed.
    """
    try:
        return [importlib.import_module(name) for name in names]
    except ImportError as error:
        packages = [name.partition(".")[0] for name in names]
        if packages == ["backports"]:
            packages = list(names)
        projects = (
            _PROJECTS.get(x, x.replace("tensorflow_", "tensorflow-"))
            for x in packages
        )
        raise InputError(
            f"{purpose} need {' and '.join(packages)}, which cannot be "
            f"imported ({error}): pip install {' '.join(projects)}"
        ) from None
