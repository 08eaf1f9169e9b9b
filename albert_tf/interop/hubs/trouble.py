"""What downloads say when they fail."""

from __future__ import annotations

import re

INSTALL = 'pip install "albert-tf[download]"'


def reason(error: Exception) -> str:
    """Returns one short line of a library's message."""
    text = str(error)
    system = re.search(r"\[Errno -?\d+\] ([^\"')\n]+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = system.group(1) if system else (lines or [type(error).__name__])[0]
    return line if len(line) <= 160 else f"{line[:157]}..."
