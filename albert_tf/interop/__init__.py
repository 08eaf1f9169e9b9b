"""Weights of other systems, in and out."""
