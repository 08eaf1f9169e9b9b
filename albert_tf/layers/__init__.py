"""Layers of ALBERT models, written with `keras.ops` only."""
