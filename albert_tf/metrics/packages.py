"""The packages that compute scores, imported when they are used."""

from __future__ import annotations

import importlib
import types

from albert_tf.errors import InputError


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
