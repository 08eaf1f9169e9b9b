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
# Info and warning lines of TensorFlow's C++ code, which ignores the log level
# until it is initialized: "I0000 00:00:17... 123 port.cc:153] oneDNN ...".
_START_UP_MESSAGE = re.compile(
    rb"[IW]\d{4} [\d:. ]+\S+:\d+\]|WARNING: All log messages before absl::"
    rb"|To enable the following instructions:"
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] \S+:\d+\]"
    # TensorFlow 2.19 logs this as an error, even without a GPU.
    rb"|E\d{4} [\d:. ]+\S+:\d+\] Unable to register cu\w+ factory"
)


def import_tensorflow() -> None:
    """Imports TensorFlow for a command, with its C++ messages suppressed."""
    # By default, TensorFlow disables oneDNN on x86 CPUs without AVX-512 VNNI,
    # where it trains albert_tiny 2.2 times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault(_LOG_LEVEL, "3")
    with _filtered_stderr():
        importlib.import_module("tensorflow")


@contextlib.contextmanager
def quiet_by_default() -> Iterator[None]:
    """Suppresses TensorFlow's start-up messages if the block imports it.

    Does nothing if the program has set `TF_CPP_MIN_LOG_LEVEL` or has imported
    TensorFlow already.
    """
    if _LOG_LEVEL in os.environ or "tensorflow" in sys.modules:
        yield
        return
    os.environ[_LOG_LEVEL] = "3"
    try:
        with _filtered_stderr():
            yield
    finally:
        # A later block may import TensorFlow.
        if "tensorflow" not in sys.modules:
            del os.environ[_LOG_LEVEL]


@contextlib.contextmanager
def _filtered_stderr() -> Iterator[None]:
    """Filters start-up messages from stderr while the block runs."""
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
                if not _START_UP_MESSAGE.match(line):
                    os.write(2, line)
