"""What identifies the content of a file."""

from __future__ import annotations

import hashlib
import os


def sha256(path: str | os.PathLike) -> str:
    """Returns the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
