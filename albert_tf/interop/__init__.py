"""Checkpoints of every system: opening, matching, conversion."""
