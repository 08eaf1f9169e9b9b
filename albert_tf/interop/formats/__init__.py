"""Layouts of checkpoints, one module for each system."""
