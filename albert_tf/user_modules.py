"""Python files of users, which register task types and objectives."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import Field
from types import ModuleType
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar

from albert_tf.errors import InputError
from albert_tf.files import real_path

_imported: set[str] = set()


class _Named(Protocol):
    name: ClassVar[str]


_Class = TypeVar("_Class", bound=type[_Named])


class Registry(dict[str, Any]):
    """Classes by name, which files of users can add to.

    Args:
      base: the class whose subclasses they are.
      noun: what the classes are, such as "task type".
      setting: name of the setting that names a user's file.
      classes: those of the package.

    Attributes:
      files: name of a class -> absolute path of the file that registered it.
    """

    def __init__(
        self,
        base: type,
        noun: str,
        setting: str,
        classes: Iterable[type[_Named]],
    ):
        super().__init__((cls.name, cls) for cls in classes)
        self._base = base
        self._noun, self._setting = noun, setting
        self.files: dict[str, str] = {}

    def register(self, cls: _Class) -> _Class:
        """Class decorator that registers a class under its name.

        Raises:
          InputError: if another class with this name is registered, or the
            class is no subclass of the base, lacks an attribute or a method, or
            has settings but is not a dataclass.
        """
        self._check_complete(cls)
        known = self.setdefault(cls.name, cls)
        if known is not cls:
            raise InputError(
                f"{self._noun} {cls.name!r} is already defined by "
                f"{known.__module__}; give the new one another name"
            )
        return cls

    def _check_complete(self, cls: type) -> None:
        """Checks that a class has what its base declares."""
        what = f"{self._noun} {getattr(cls, '__name__', cls)}"
        base = self._base
        if not (isinstance(cls, type) and issubclass(cls, base)):
            raise InputError(f"{what}: must be a subclass of {base.__name__}")
        fields = [k for k, x in vars(cls).items() if isinstance(x, Field)]
        if fields:  # `dataclass` replaces them by their defaults.
            raise InputError(
                f"{what}: has the setting {fields[0]}, but is not a dataclass; "
                "put @dataclasses.dataclass(frozen=True, kw_only=True) between "
                "its other decorator and the class"
            )
        if lacking := sorted(cls.__abstractmethods__):
            raise InputError(
                f"{what}: lacks the method {lacking[0]}; define it"
            )
        for name, annotation in base.__annotations__.items():
            if not annotation.startswith("ClassVar["):
                continue
            kind = annotation[len("ClassVar[") : -1]
            if not hasattr(cls, name):
                raise InputError(f"{what}: lacks the attribute {name}: {kind}")
            value = getattr(cls, name)
            if kind in ("str", "tuple[str, ...]") and (
                isinstance(value, str) != (kind == "str")
            ):
                raise InputError(f"{what}: {name}={value!r} must be {kind}")

    def load_module(self, path: str | os.PathLike[str]) -> str:
        """Imports a Python file that registers classes, once.

        Returns:
          The absolute path of the file.

        Raises:
          InputError: if the file does not exist, cannot be imported or
            registers nothing.
        """
        before = set(self)
        file = import_user_module(path, self._setting, self)
        self.files |= dict.fromkeys(set(self) - before, file)
        if file not in self.files.values():
            decorator = f"@register_{self._noun.replace(' ', '_')}"
            raise InputError(
                f"{self._setting}={os.fspath(path)}: registers no "
                f"{self._noun}; decorate its class with {decorator}"
            )
        return file


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
