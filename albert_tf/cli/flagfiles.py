"""Flagfiles: flags in text files, one per line."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence

from albert_tf.errors import InputError
from albert_tf.input_files import read_bytes

_COMMENT = ("#", "//")  # Prefixes of comment lines.
_MAX_NESTED = 16  # Maximum depth of flagfiles in flagfiles.


def expand_flagfiles(
    arguments: Iterable[str], within: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Replaces flagfiles in arguments by the flags they contain.

    Unlike in absl, it is an error if a flagfile is a pipe, a device or huge, or
    if it includes itself.

    Args:
      arguments: arguments of a command line, or the lines of a flagfile.
      within: the flagfiles that include these lines.

    Yields:
      Each argument, and the flagfile that it comes from, or "".

    Raises:
      InputError: if a flagfile cannot be read.
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
        if not path:
            raise InputError("--flagfile= must not be empty")
        if path in within:
            raise InputError(f"--flagfile={path}: includes itself")
        if len(within) == _MAX_NESTED:
            raise InputError(f"--flagfile={path}: nested too deeply")
        content = read_bytes(path, f"--flagfile={path}")
        try:
            text = io.StringIO(content.decode("utf-8-sig"), newline=None)
        except UnicodeDecodeError:
            raise InputError(f"--flagfile={path}: not UTF-8") from None
        lines = (line.strip() for line in text if not line.startswith(_COMMENT))
        yield from expand_flagfiles(filter(None, lines), (*within, path))
