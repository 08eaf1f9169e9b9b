"""Parts of error messages about hubs that cannot be used."""

from __future__ import annotations

import re

from albert_tf.pretrained_models import DEFAULT


def first_line(error: Exception) -> str:
    """Returns the system's message or the first line of an error, shortened."""
    text = str(error)
    system = re.search(r"\[Errno -?\d+\] ([^\"')\n]+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = system.group(1) if system else (lines or [type(error).__name__])[0]
    return line if len(line) <= 160 else f"{line[:157]}..."


# What to do without a network, for error messages.
CONNECT = (
    "connect, or give a folder that was copied from another machine, or "
    f'"{DEFAULT}", which is part of albert_tf'
)
