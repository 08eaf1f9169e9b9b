"""Checkpoints by name: the hubs' own libraries and their caches."""
