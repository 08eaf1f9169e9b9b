"""`python -m contract EXPORT FINDINGS [EXPECTED.npz]`."""

from __future__ import annotations

import importlib
import sys

# What the export promises has to hold where albert_tf is not installed.
sys.modules["albert_tf"] = None

from .exported import Exported  # noqa: E402
from .files import CHECKS  # noqa: E402
from .findings import Findings  # noqa: E402


def main(folder: str, findings_file: str, expected_file: str = "") -> None:
    """Checks the export in a folder.

    Args:
      folder: the export.
      findings_file: written: a finding a line.
      expected_file: what a source model makes of some inputs, see
        `Exported.expected`; "" for nothing to compare with.
    """
    findings = Findings(findings_file)
    exported = Exported(folder, expected_file)
    for name, check in CHECKS.items():
        findings.add(name, check, exported)
    if findings.add("loads", Exported.load, exported):
        kind = importlib.import_module(f".{exported.kind}", __package__)
        for name, check in kind.CHECKS.items():
            findings.add(name, check, exported)
    findings.finish()


main(*sys.argv[1:])
