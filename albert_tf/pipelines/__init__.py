"""Pipelines: pretrained models applied to strings."""
