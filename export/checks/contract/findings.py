"""What checks find, told line by line: a crash does not take it away."""

from __future__ import annotations

import json
from collections.abc import Callable

_LONGEST = 200


class Failed(Exception):
    """A check has found something wrong; the text says what."""


class Skipped(Exception):
    """A check has nothing to check; the text says why."""


class Findings:
    """Writes findings into a file, a line of JSON each.

    A line has "name", "result" ("pass", "FAIL" or "skip") and "figure", what
    was measured or found. The last line, {"finished": true}, tells that the
    program came to its end.

    Args:
      path: of the file.
    """

    def __init__(self, path: str):
        self._file = open(path, "w", encoding="utf-8")

    def add(self, name: str, check: Callable, *arguments) -> bool:
        """Runs a check; returns whether it did not fail.

        Args:
          name: of the check.
          check: returns a figure, or raises: anything but `Skipped` is a
            failure.
          *arguments: of it.
        """
        try:
            result, figure = "pass", check(*arguments)
        except Skipped as reason:
            result, figure = "skip", str(reason)
        except Exception as error:
            kind = "" if isinstance(error, Failed) else type(error).__name__
            result, figure = "FAIL", f"{kind}{kind and ': '}{error}"
        figure = " ".join(str(figure or "").split())
        if len(figure) > _LONGEST:
            figure = f"{figure[: _LONGEST - 3]}..."
        self._write({"name": name, "result": result, "figure": figure})
        return result != "FAIL"

    def finish(self) -> None:
        """Tells that all checks were run."""
        self._write({"finished": True})
        self._file.close()

    def _write(self, line: dict) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def expect(condition: object, message: str) -> None:
    """Raises `Failed` with a message unless a condition holds."""
    if not condition:
        raise Failed(message)


def expect_same(found: object, wanted: object, what: str) -> None:
    """Raises `Failed` unless two values are equal."""
    expect(found == wanted, f"{what}: {found}, not {wanted}")
