"""Verifies a finished export in a fresh process."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.export.manifest import MANIFEST

# The kinds of exports that there are checks for: modules of `contract`.
KINDS = ("encoder", "preprocessor", "text_encoder", "task", "litert")

# Set of inputs -> name -> what a source model takes and gives.
Expected = Mapping[str, Mapping[str, np.ndarray]]

_PROGRAM = "contract"
_HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
      name: of the check.
      result: "pass", "FAIL", or "skip" where there is nothing to check.
      figure: what was measured, or is wrong.
    """

    name: str
    result: str
    figure: str = ""


def read_export(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what the `export.json` of an export says.

    Raises:
      InputError: there is no export, or none that can be checked.
    """
    path = pathlib.Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(
            f"check={os.fspath(folder)}: no {MANIFEST}, so no finished export "
            "of `albert export`"
        )
    try:
        values = json.loads(path.read_text("utf-8"))
        kind = values["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read as an {MANIFEST} ({error!r})"
        ) from None
    if kind not in KINDS:
        raise InputError(
            f"{path}: kind {kind!r} must be one of {', '.join(KINDS)}"
        )
    return values


def check_export(
    folder: str | os.PathLike[str],
    expected: Expected | None = None,
) -> list[Finding]:
    """Verifies an export in a fresh process that cannot import albert_tf.

    Args:
      folder: the export.
      expected: what its source makes of some inputs: set of inputs -> name ->
        array; see the kind's module of `contract` for the sets and names. None
        leaves that comparison out.

    Returns:
      A finding a check, in order. Where the process does not come to its end,
      the last one says so.

    Raises:
      InputError: there is no export.
    """
    read_export(folder)
    with tempfile.TemporaryDirectory() as scratch:
        findings = pathlib.Path(scratch) / "findings"
        arguments = [os.path.abspath(folder), str(findings)]
        if expected:
            arrays = pathlib.Path(scratch) / "expected.npz"
            save_expected(arrays, expected)
            arguments.append(str(arrays))
        ended = _run(arguments)
        lines = []
        if findings.exists():
            lines = findings.read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    if found and found[-1] == {"finished": True}:
        return [Finding(**line) for line in found[:-1]]
    last = (ended.stderr.strip().splitlines() or [""])[-1]
    return [
        *(Finding(**line) for line in found),
        Finding(
            name="came to its end",
            result="FAIL",
            figure=f"status {ended.returncode}: {last}",
        ),
    ]


def save_expected(path: pathlib.Path, expected: Expected) -> None:
    """Writes what the checks compare with, as they read it."""
    arrays = {
        f"{name}.{key}": array
        for name, values in expected.items()
        for key, array in values.items()
    }
    np.savez(path, **arrays)


def findings_table(findings: Sequence[Finding]) -> str:
    """Returns a line a finding: check, result, figure."""
    rows = [("check", "result", "figure")]
    rows += [(x.name, x.result, x.figure) for x in findings]
    width = max(len(name) for name, _, _ in rows)
    return "\n".join(
        f"{name:{width}}  {result:6}  {figure}".rstrip()
        for name, result, figure in rows
    )


def _run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    # It would keep the program from finding itself.
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run(
        [sys.executable, "-m", _PROGRAM, *arguments],
        cwd=_HERE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
