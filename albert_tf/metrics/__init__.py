"""Scores of predictions, from arrays and strings."""
