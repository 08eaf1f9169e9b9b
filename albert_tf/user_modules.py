"""Python files of users, which register task types and objectives."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

from albert_tf.errors import InputError
from albert_tf.files import real_path

_imported: set[str] = set()


def import_user_module(
    path: str | os.PathLike[str], setting: str, registry: dict[str, Any]
) -> str:
    """Imports a Python file, once.

    Args:
      path: the file.
      setting: name of the setting that names it, for error messages.
      registry: where the file registers its classes. If it cannot be imported,
        those are removed, so that it can be corrected and imported again.

    Returns:
      The absolute path of the file.

    Raises:
      InputError: if the file does not exist or cannot be imported.
    """
    file = real_path(path)
    if str(file) in _imported:
        return str(file)
    source = f"{setting}={os.fspath(path)}"
    if not file.is_file():
        raise InputError(f"{source}: no such file")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{source}: must be a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    # Keras and pickle find classes by the names of their modules.
    sys.modules.setdefault(file.stem, module)
    printed = io.StringIO()
    try:
        with (
            _undone(module, registry),
            _without_exit(),
            contextlib.redirect_stdout(printed),
        ):
            spec.loader.exec_module(module)
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(
            f"{source}: ends the program when it is imported; put what it runs "
            'under `if __name__ == "__main__":`'
        ) from error
    except Exception as error:
        raise InputError(
            f"{source}: cannot be imported ({type(error).__name__}: {error})"
        ) from error
    # The output of a command may be data.
    sys.stderr.write(printed.getvalue())
    _imported.add(str(file))
    return str(file)


@contextlib.contextmanager
def _undone(module: ModuleType, registry: dict[str, Any]) -> Iterator[None]:
    """Forgets a module, and what it registers, if it cannot be imported."""
    before = dict(registry)
    try:
        yield
    except BaseException:
        registry.clear()
        registry.update(before)
        if sys.modules.get(module.__name__) is module:
            del sys.modules[module.__name__]
        raise


@contextlib.contextmanager
def _without_exit() -> Iterator[None]:
    """Lets `os._exit` raise `SystemExit`, as `sys.exit` does."""
    real_exit = os._exit

    def exit(status: int) -> NoReturn:
        raise SystemExit(status)

    os._exit = exit
    try:
        yield
    finally:
        os._exit = real_exit
