"""Flagfiles: one flag per line, among them flagfiles to include."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence

from albert_tf.errors import InputError
from albert_tf.input_files import read_text

_COMMENT = ("#", "//")  # Prefixes of comment lines.
_MAX_NESTED = 16  # Maximum depth of flagfiles in flagfiles.
_MAX_FILES = 1000  # Included by a command line, repetitions counted.


def expand_flagfiles(arguments: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Replaces flagfiles in arguments by the flags they contain.

    Unlike in absl, it is an error if a flagfile is a pipe, a device or huge, or
    if it includes itself, possibly through others. Yields each argument, and
    the flagfile that it comes from, or "".
    """
    yield from _expand(arguments, (), [])


def _expand(
    arguments: Iterable[str], within: Sequence[str], opened: list[str]
) -> Iterator[tuple[str, str]]:
    """Expands the lines of a flagfile.

    `within` are the flagfiles that include each other down to these lines, and
    `opened` all flagfiles so far, to which those found here are appended.
    """
    rest = iter(arguments)
    file = within[-1] if within else ""
    for argument in rest:
        if argument == "--":
            yield argument, file
            yield from ((each, file) for each in rest)
            return
        name, equals, path = argument.partition("=")
        if name not in ("--flagfile", "-flagfile"):
            yield argument, file
            continue
        path = os.path.expanduser((path if equals else next(rest, "")).strip())
        source = f"--flagfile={path}"
        if not path:
            raise InputError("--flagfile= must not be empty")
        if os.path.realpath(path) in map(os.path.realpath, within):
            chain = " -> ".join([*within, path])
            raise InputError(f"{source}: includes itself ({chain})")
        opened.append(path)
        if len(within) == _MAX_NESTED or len(opened) > _MAX_FILES:
            raise InputError(
                f"{source}: flagfiles may be nested at most {_MAX_NESTED} "
                f"deep, and at most {_MAX_FILES:,} may be included"
            )
        text = io.StringIO(read_text(path, source), newline=None)
        lines = (line.strip() for line in text if not line.startswith(_COMMENT))
        yield from _expand(filter(None, lines), (*within, path), opened)
