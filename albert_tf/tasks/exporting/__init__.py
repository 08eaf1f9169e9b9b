"""Checkpoints and fine-tuned models as what other programs load."""
