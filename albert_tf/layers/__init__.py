"""Layers of ALBERT models in `keras.ops`, with faster forms for TensorFlow."""
