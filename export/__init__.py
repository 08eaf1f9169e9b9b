"""Exports to SavedModels and other runtimes, and `HubLayer` to load them.

Encoders and preprocessors follow TF-Hub's text contract,
https://www.tensorflow.org/hub/common_saved_model_apis/text, on top of
https://www.tensorflow.org/hub/reusable_saved_models.
"""
