"""Errors that users can correct, and what their messages consist of."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any

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


@contextlib.contextmanager
def exit_on_input_error(program: str) -> Iterator[None]:
    """Ends a program with one line and status 2, as those of `albert` end."""
    try:
        yield
    except InputError as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)


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


def shown(value: Any) -> str:
    """Returns the `repr` of a value, shortened for an error message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
