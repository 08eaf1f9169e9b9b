"""Paths and patterns as users give them: a text with commas, or a list."""

from __future__ import annotations

import os
from collections.abc import Sequence

PathPatterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def split_patterns(patterns: PathPatterns) -> list[str]:
    """Returns the single patterns.

    Args:
      patterns: patterns separated by commas, one path, or a list of them, whose
        commas mean themselves.
    """
    if isinstance(patterns, str):
        return [part.strip() for part in patterns.split(",")]
    if isinstance(patterns, os.PathLike):
        return [os.fspath(patterns)]
    return [os.fspath(pattern) for pattern in patterns]
