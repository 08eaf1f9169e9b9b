"""Verification of a finished export: `albert export --check`."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.exporting.config import IDS_KINDS
from albert_tf.exporting.manifest import MANIFEST, read_export
from albert_tf.exporting.model_card import CARD
from albert_tf.exporting.reference import source_cases, write_cases
from albert_tf.input_files import sha256
from albert_tf.interop.tf_graph import read_saved_model
from albert_tf.tables import text_table

_PROGRAM = pathlib.Path(__file__).with_name("check_program.py")
_START = """\
import runpy, sys
sys.modules["albert_tf"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of one check of an export.

    Attributes:
      name: name of the check.
      result: "pass", "FAIL", or "skip" if the check does not apply.
      figure: what was measured, or what is wrong.
    """

    name: str
    result: str
    figure: str = ""


def check_export(
    folder: str | os.PathLike[str],
    model: str | os.PathLike[str] | None = None,
) -> list[Check]:
    """Verifies an export in a fresh process that cannot import albert_tf.

    Args:
      folder: folder of the export.
      model: the checkpoint that it was made from, to compare outputs with; None
        to skip the comparison.

    Returns:
      The checks in order. If the process crashed, the last one says so.

    Raises:
      InputError: if `folder` is not an export, its graph does more than to
        compute (see `check_operations`), or `model` cannot be opened or has
        another architecture, vocabulary or task.
    """
    manifest = read_export(folder)
    if manifest["kind"] not in (*IDS_KINDS, "web"):
        check_operations(folder)
    cases = [] if model is None else source_cases(model, manifest)
    checks = [check_files(pathlib.Path(folder), manifest)]
    if model is None:
        checks.append(Check("source model", "skip", "no --model"))
    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch, "checks")
        report.touch()
        write_cases(pathlib.Path(scratch, "cases"), cases)
        files = [os.path.abspath(folder), "checks", "cases"]
        ended = subprocess.run(
            [sys.executable, "-c", _START, os.fspath(_PROGRAM), *files],
            cwd=scratch,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [json.loads(x) for x in report.read_text("utf-8").splitlines()]
    checks += [Check(**line) for line in lines if line]
    if not lines or lines[-1]:
        last = (ended.stderr.strip().splitlines() or [""])[-1]
        figure = f"status {ended.returncode}: {last}"
        checks.append(Check("finished", "FAIL", figure))
    return checks


# Operations that read or write files, run Python, or talk to other processes.
_UNSAFE = re.compile(
    "File|Reader|Dataset|Iterator|PyFunc|Save|Restore|Checkpoint|Print|Summary"
    "|Debug|Proto|Rpc|Remote|Send|Recv|Collective|Snapshot|LMDB|Abort|Remap"
    "|UnigramCandidateSampler|RecordInput"
)
# The functions that read and write the variables, and what they may do.
_SAVER = re.compile(r"__inference__traced_(save|restore)_\d+")
_OF_SAVER = {"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename"}
# Other forms of a SavedModel's graph, which TensorFlow loads, too.
_OTHER_FORMS = ("saved_model.cpb", "saved_model.pbtxt")


def check_operations(folder: str | os.PathLike[str]) -> None:
    """Refuses a SavedModel that does more than to compute.

    Args:
      folder: the SavedModel.

    Raises:
      InputError: if the graph or one of its functions has an operation on
        files, of Python or of a network, or the graph cannot be read.
    """
    folder = pathlib.Path(folder)
    for name in _OTHER_FORMS:
        if (folder / name).exists():
            raise InputError(
                f"{folder} has a {name}, which exports of albert_tf do not "
                "have; it is not loaded"
            )
    if not (folder / "saved_model.pb").exists():
        return  # Nothing that TensorFlow would load.
    unsafe = set()
    for graph in read_saved_model(folder):
        for function, operations, calls_saver in graph.operations(_SAVER):
            found = {x for x in operations if _UNSAFE.search(x)}
            if _SAVER.fullmatch(function):
                found -= _OF_SAVER
            elif function and calls_saver:
                found.add(f"a call of the saver in {function}")
            unsafe |= found
        # TensorFlow restores variables without it, and calls nothing else that
        # this does not name.
        if graph.objects_mention(_SAVER):
            unsafe.add("the saver as an object")
    if unsafe:
        raise InputError(
            f"{folder}: the graph has operations on files, of Python or of a "
            f"network ({', '.join(sorted(unsafe))[:200]}), which exports of "
            "albert_tf do not have; it is not loaded"
        )


def check_files(folder: pathlib.Path, manifest: Mapping[str, Any]) -> Check:
    """Checks that all files exist, and the sha256 of those that have one."""
    files = manifest.get("files", {})
    if "sha256" in manifest:
        files = {manifest.get("file", ""): manifest}
    saved_model = ("saved_model.pb", "variables/variables.index")
    for name in (MANIFEST, CARD, *(files or saved_model)):
        path = folder / name
        if not path.is_file() or not path.stat().st_size:
            return Check("files", "FAIL", f"{name} is missing or empty")
    expected = {name: values["sha256"] for name, values in files.items()}
    tokenizer = manifest["tokenizer"] or {}
    if tokenizer.get("file") in files:
        # The vocabulary that the weights were trained with.
        expected[tokenizer["file"]] = tokenizer["fingerprint"]
    for name, digest in expected.items():
        found = sha256(folder / name)
        if found != digest:
            figure = f"{name}: sha256 {found}, expected {digest}"
            return Check("files", "FAIL", figure)
    return Check("files", "pass")


def checks_table(checks: Sequence[Check]) -> str:
    """Formats checks as a table with the columns check, result and figure."""
    rows = [("check", "result", "figure")]
    rows += [(x.name, x.result, x.figure) for x in checks]
    return text_table(rows, left=3)
