"""Pretrained models that are part of the package, opened by name.

Each is a folder that `albert convert` wrote, with a model card.
"""

from __future__ import annotations

import os
from importlib import resources

# The model of pipelines that are not given one.
DEFAULT = "albert_tiny_en"
_VOCABULARY = "spiece.model"


def packaged_names() -> list[str]:
    """Returns the names of the packaged models, sorted."""
    return sorted(
        entry.name
        for entry in resources.files(__name__).iterdir()
        if entry.joinpath("config.json").is_file()
    )


def local_or_packaged(name: str | os.PathLike[str]) -> str:
    """Returns the folder of the packaged model `name`, or `name` itself.

    A local file or folder of that name takes precedence.
    """
    name = os.fspath(name)
    if name in packaged_names() and not os.path.exists(name):
        return str(resources.files(__name__) / name)
    return name


def vocabulary_path(name: str | os.PathLike[str]) -> str:
    """Returns the vocabulary file of the packaged model `name`, or `name`."""
    path = local_or_packaged(name)
    if path == os.fspath(name):
        return path
    return os.path.join(path, _VOCABULARY)
