"""The parts of an ALBERT model, written with `keras.ops` only."""
