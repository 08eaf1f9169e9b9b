"""ALBERT models: ordinary Keras 3 models, dict in and dict out."""
