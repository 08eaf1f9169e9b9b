"""Reading of example files, and reports of bad examples."""

from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from albert_tf.errors import InputError, counted
from albert_tf.input_files import numbered_lines, open_decompressed

# Number of reports that are kept and shown.
_MAX_LINES = 20
_MAX_JSON = 2 << 30
# That of float32, the dtype of labels and of the model's outputs.
_LARGEST_NUMBER = (2.0 - 2.0**-23) * 2.0**127


class BadExamples:
    """Collects reports of examples that cannot be used.

    Attributes:
      policy: "stop" raises an error at the first bad example; "skip" leaves bad
        examples out, and counts and lists them.
      counted: number of examples reported so far, which "skip" skips.
      lines: the first reports, "location: problem".
      can_skip: whether the command has a flag for the policy, which the error
        then names.
    """

    def __init__(self, policy: str = "stop", *, can_skip: bool = True) -> None:
        self.policy = policy
        self.can_skip = can_skip
        self.counted = 0
        self.lines: list[str] = []

    def report(self, location: str, problem: str) -> None:
        """Reports a bad example, which the caller then leaves out.

        Args:
          location: such as "file:line".
          problem: what is wrong and how to fix it, in one line.

        Raises:
          InputError: if the policy is "stop".
        """
        line = " ".join(f"{location}: {problem}".split())
        self.counted += 1
        if len(self.lines) < _MAX_LINES:
            self.lines.append(line)
        if self.policy == "stop":
            flag = " (or skip such examples with --on_bad_example=skip)"
            raise InputError(line + flag * self.can_skip)

    def summary(self) -> str:
        """Returns the number of reports and the first of them; "" if none."""
        if not self.counted:
            return ""
        total = counted(self.counted, "bad example")
        lines = [f"{total} left out", *self.lines]
        if more := self.counted - len(self.lines):
            lines.append(f"and {more} more")
        return "\n  ".join(lines)


def read_lines(
    path: str | os.PathLike[str], bad: BadExamples
) -> Iterator[tuple[int, str | None]]:
    """Reads a text file, perhaps compressed, line by line.

    Lines end at line feeds only, because texts may contain the other characters
    that `str.splitlines` splits at. A byte-order mark is removed.

    Yields:
      The number of each line, from 1, and the line without its end (LF or
      CRLF), or None if it is not UTF-8, which is reported.
    """
    with open_decompressed(path) as file:
        yield from decoded_lines(file, path, bad.report)


def decoded_lines(
    file: IO[bytes],
    source: str | os.PathLike[str],
    report: Callable[[str, str], None],
) -> Iterator[tuple[int, str | None]]:
    """Yields the lines of the text named `source`, as `read_lines` does."""
    for number, line in numbered_lines(file, source):
        text = None
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            text = text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            report(
                f"{source}:{number}",
                f"byte {error.start + 1} of the line is not UTF-8; convert it, "
                "e.g. with iconv",
            )
        yield number, text


def load_json(path: str | os.PathLike[str]) -> Any:
    """Loads a JSON file, perhaps compressed; errors name the line."""
    with open_decompressed(path) as file:
        content = file.read(_MAX_JSON + 1)
    if len(content) > _MAX_JSON:
        raise InputError(
            f"{path}: larger than {_MAX_JSON >> 30} GiB, the maximum for a "
            "JSON file; split it"
        )
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}:{line}: byte {error.start + 1} of the file is not UTF-8; "
            "convert the file, e.g. with iconv"
        ) from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}: not JSON ({error.msg} at column "
            f"{error.colno}); download the file again"
        ) from None
    except (ValueError, RecursionError) as error:  # too long or too deep
        raise InputError(f"{path}: not usable as JSON ({error})") from None


def json_lines(
    path: str | os.PathLike[str], bad: BadExamples
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yields the number and the object of each line of a JSON Lines file.

    Blank lines are skipped. The object is None for a bad line.
    """
    for number, line in read_lines(path, bad):
        if line is None:
            yield number, None
        elif line.strip():
            value, problem = None, "not a JSON object"
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                problem = f"not JSON ({error.msg} at column {error.colno})"
            except (ValueError, RecursionError) as error:  # too long or deep
                problem = f"not usable as JSON ({error})"
            if not isinstance(value, dict):
                bad.report(f"{path}:{number}", f"{problem}; fix the line")
                value = None
            yield number, value


def text_problem(text: Any, *, may_be_empty: bool = False) -> str:
    """Returns why a value is not usable as a text; "" if it is."""
    if not isinstance(text, str):
        return "is not a string"
    if not text.strip() and not may_be_empty:
        return "is empty"
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # JSON can encode half of a surrogate pair.
        return f"has a lone surrogate at character {error.start}"
    return ""


def finite_number(value: str | float) -> float | None:
    """Returns a value as a number; None if it is none, or not finite."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def parse_number(cell: str, name: str) -> tuple[float | None, str]:
    """Parses a number; returns it and "", or None and the problem."""
    number = finite_number(cell)
    if number is None:
        return None, f"{name} {cell[:60]!r} is not a number; fix it"
    if abs(number) > _LARGEST_NUMBER:
        return None, f"{name} {cell[:60]!r} is too large for float32; fix it"
    return number, ""


def file_extension(path: str | os.PathLike[str]) -> str:
    """Returns the extension of a file in lower case, ignoring `.gz`."""
    path = pathlib.Path(path)
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    return path.suffix.lower()
