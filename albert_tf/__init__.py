"""ALBERT for TensorFlow 2 and Keras 3."""
