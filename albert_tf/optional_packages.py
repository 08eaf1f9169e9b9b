"""Imports of optional packages."""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence

from albert_tf.errors import InputError

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
