"""Entry point of `albert COMMAND --flags`: help, dispatch and errors."""

from __future__ import annotations

import contextlib
import difflib
import errno
import importlib.metadata
import logging
import os
import platform
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence

import albert_tf
from albert_tf.cli.commands import (
    COMMANDS,
    command_flags,
    command_module,
    recipe_file,
    recipe_names,
)
from albert_tf.cli.migration import SCRIPTS
from albert_tf.errors import InputError, printable
from albert_tf.quiet_import import import_tensorflow

# Commands that do not need TensorFlow, which takes seconds to import, or that
# import it themselves.
_WITHOUT_TENSORFLOW = (
    *("train-vocab", "create-data", "analyze", "finetune", "predict"),
    *("completion", "fill-mask", "embed", "sentence-order"),
)

_BAD_INPUT, _FAILED = 2, 1

# System errors that the user can fix by another path or permission.
_BAD_PATH = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
    *(errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EINVAL),
    *(errno.ENOTEMPTY, errno.ENXIO, errno.EROFS),
}

# Whether SIGINT was received. Some extension modules, such as optree, turn a
# `KeyboardInterrupt` during their import into an `ImportError`.
_interrupted = False


def _interrupt(*_) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def run(argv: Sequence[str] | None = None) -> None:
    """Runs a command and exits with status 0, 1 (failure) or 2 (bad input).

    Raises:
      KeyboardInterrupt: on Ctrl-C, unless the command handles it by saving.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        with _printed_warnings():
            status = main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output, such as `head`, has exited.
        _discard_output()
        status = _FAILED
    except OSError as error:
        # Standard output cannot be written, such as to a full disk.
        _discard_output()
        status = _print_error(*_describe(error))
    sys.exit(status)


class _WarningFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"albert: warning: {printable(super().format(record))}"


@contextlib.contextmanager
def _printed_warnings() -> Iterator[None]:
    """Prints the library's warnings in the format of its errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(_WarningFormatter())
    logger = logging.getLogger("albert_tf")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def _discard_output() -> None:
    """Discards buffered output, which would fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str]) -> int:
    """Runs a command and returns the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else _BAD_INPUT
    if arguments[0] == "--version":
        print(_versions())
        return 0
    if arguments[0] == "--list_recipes":
        print("\n".join(recipe_names()))
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        kind = "flag" if command.startswith("-") else "command"
        script = SCRIPTS.get(command.removesuffix(".py"))
        close = [script] if script else []
        close = close or difflib.get_close_matches(command, COMMANDS, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        return _print_error(
            f"unknown {kind} {command!r}; {hint}the commands are "
            f"{', '.join(COMMANDS)}",
            _BAD_INPUT,
        )
    if "--list_recipes" in rest:
        print("\n".join(recipe_names(command)) or f"{command} has no recipes")
        return 0
    module = command_module(command)
    flags = command_flags(command)
    if {"-h", "--help", "--helpshort"} & set(rest):
        title, _, text = (module.__doc__ or "").strip().partition("\n")
        print(textwrap.fill(f"albert {command}: {title}", 80))
        print(f"{text}\n\n{flags.help()}")
        return 0
    try:
        flags.parse(command, expand_recipes(rest))
        if flags.arguments and not getattr(module, "TAKES_ARGUMENTS", False):
            raise InputError(f"unexpected argument {flags.arguments[0]!r}")
        if command not in _WITHOUT_TENSORFLOW:
            import_tensorflow()
        module.main(flags)
    except BrokenPipeError:
        raise
    except Exception as error:
        if _interrupted:
            raise KeyboardInterrupt from error
        if flags.debug:
            raise
        text, status = _describe(error)
        return _print_error(f"{command}: {' '.join(text.split())}", status)
    return 0


def expand_recipes(arguments: Sequence[str]) -> list[str]:
    """Replaces --recipe=NAME by the --flagfile of the packaged recipe."""
    expanded = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in ("--recipe", "-recipe"):
            argument = (
                f"--flagfile={recipe_file(value if equals else next(rest, ''))}"
            )
        expanded.append(argument)
    return expanded


def _versions() -> str:
    """Returns the versions to include in a bug report."""
    versions = [f"albert {albert_tf.__version__}"]
    for name in ("tensorflow", "keras"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join([*versions, f"python {platform.python_version()}"])


def _describe(error: Exception) -> tuple[str, int]:
    """Returns the message and the exit status for an error."""
    text = str(error) or type(error).__name__
    if isinstance(error, InputError):
        return text, _BAD_INPUT
    if isinstance(error, OSError) and error.strerror:
        names = [error.filename, error.filename2]
        paths = " -> ".join(str(name) for name in names if name is not None)
        text = f"{paths}: {error.strerror}" if paths else error.strerror
        return text, _BAD_INPUT if error.errno in _BAD_PATH else _FAILED
    if isinstance(error, UnicodeError):
        return f"a text or a name is not UTF-8 ({text})", _BAD_INPUT
    if isinstance(error, MemoryError):
        return f"out of memory ({text})", _FAILED
    if type(error).__module__.startswith("tensorflow."):
        # The message of the system, without the names of operations.
        text = text.partition(" [Op:")[0].partition("{{")[0]
        bad = ("NotFoundError", "PermissionDeniedError", "AlreadyExistsError")
        unknown = ("File system scheme", "GCS path")  # gs:// without a bucket
        if type(error).__name__ in bad or text.startswith(unknown):
            return text, _BAD_INPUT
    return (
        f"{type(error).__name__}: {text} (--debug shows the traceback)",
        _FAILED,
    )


def _print_error(text: str, status: int) -> int:
    # On a terminal, overwrite an unfinished progress bar.
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{start}albert: {printable(text)}", file=sys.stderr)
    return status


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: albert COMMAND [--flags]",
            "       albert --version | --list_recipes",
            "",
            *lines,
            "",
            "`albert COMMAND --help` lists the flags of a command. They may",
            "also come from a file (--flagfile=FILE) or a packaged recipe",
            "(--recipe=NAME). Later flags override earlier ones. --debug",
            "shows the traceback of an error.",
        ]
    )
