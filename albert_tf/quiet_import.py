"""Imports of TensorFlow with oneDNN, and without its start-up chatter."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# Lines of TensorFlow's C++ below an error, which ignore the log level until it
# is initialized: "I0000 00:00:17... 123 port.cc:153] oneDNN ...".
_CHATTER = re.compile(
    rb"[IW]\d{4} [\d:. ]+\S+:\d+\]|WARNING: All log messages before absl::"
    rb"|To enable the following instructions:"
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] \S+:\d+\]"
    # TensorFlow 2.19 calls this an error, where there is no GPU either.
    rb"|E\d{4} [\d:. ]+\S+:\d+\] Unable to register cu\w+ factory"
)


def import_tensorflow() -> None:
    """Imports TensorFlow for a command, without what its C++ prints.

    Exceptions are Python's and come through.
    """
    # TensorFlow leaves oneDNN's kernels off on x86 CPUs without AVX-512 VNNI,
    # where they train albert_tiny 2.2 times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault(_LOG_LEVEL, "3")
    with _without_chatter():
        importlib.import_module("tensorflow")


@contextlib.contextmanager
def quiet_by_default() -> Iterator[None]:
    """Hides TensorFlow's chatter while the block imports it.

    Nothing is hidden from a program that has set `TF_CPP_MIN_LOG_LEVEL` or has
    imported TensorFlow itself.
    """
    if _LOG_LEVEL in os.environ or "tensorflow" in sys.modules:
        yield
        return
    os.environ[_LOG_LEVEL] = "3"
    try:
        with _without_chatter():
            yield
    finally:
        # It was not the user who set it: a later block may import TensorFlow.
        if "tensorflow" not in sys.modules:
            del os.environ[_LOG_LEVEL]


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Holds back what is written to stderr; at the end, passes on the rest."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # Closed: nothing is to be seen.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            with contextlib.suppress(AttributeError, OSError, ValueError):
                sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            for line in held:
                if not _CHATTER.match(line):
                    os.write(2, line)
