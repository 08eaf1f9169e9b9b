"""Imports of TensorFlow with oneDNN and without start-up messages."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"

# Lines of TensorFlow's C++ code, which ignores the log level until it has
# initialized its log: "I0000 00:00:17... 123 port.cc:153] oneDNN ...".
_MESSAGE = rb"%s\d{4} [\d:. ]+\S+:\d+\]|\d{4}-\d\d-\d\d [\d:.]+: %s \S+:\d+\]"

# Log level -> the pattern of the lines that it hides.
_INFO = (
    _MESSAGE % (b"I", b"I")
    + rb"|WARNING: All log messages before absl::"
    + rb"|To enable the following instructions:"
    # TensorFlow 2.19 logs this as an error, even without a GPU.
    + rb"|E\d{4} [\d:. ]+\S+:\d+\] Unable to register cu\w+ factory"
)
_HIDDEN = {1: _INFO, 2: _INFO + b"|" + _MESSAGE % (b"W", b"W")}


def import_tensorflow() -> None:
    """Imports TensorFlow for a command, without start-up messages."""
    # By default, TensorFlow disables oneDNN on x86 CPUs without AVX-512 VNNI,
    # where it trains albert_tiny 2.2 times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    with quiet_by_default():
        importlib.import_module("tensorflow")


@contextlib.contextmanager
def quiet_by_default() -> Iterator[None]:
    """Hides TensorFlow's start-up messages if the block imports it.

    `TF_CPP_MIN_LOG_LEVEL` says which: with 1 those of information, with 2 or 3,
    its default here, also warnings, and with 0 none. TensorFlow itself
    heeds it too late.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    is_default = _LOG_LEVEL not in os.environ
    os.environ.setdefault(_LOG_LEVEL, "3")
    try:
        with _filtered_stderr(_log_level()):
            yield
    finally:
        # A later block may import TensorFlow.
        if is_default and "tensorflow" not in sys.modules:
            del os.environ[_LOG_LEVEL]


def _log_level() -> int:
    """Returns the log level as TensorFlow reads it: 0 if it is no number."""
    try:
        return int(os.environ[_LOG_LEVEL])
    except ValueError:
        return 0


@contextlib.contextmanager
def _filtered_stderr(level: int) -> Iterator[None]:
    """Hides start-up messages below a log level while the block runs."""
    if level < 1:
        yield
        return
    hidden = re.compile(_HIDDEN[min(level, 2)])
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # stderr is closed.
        yield
        return
    with tempfile.TemporaryFile() as buffer:
        os.dup2(buffer.fileno(), 2)
        try:
            yield
        finally:
            with contextlib.suppress(AttributeError, OSError, ValueError):
                sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            buffer.seek(0)
            for line in buffer:
                if not hidden.match(line):
                    os.write(2, line)
