"""Exports to SavedModels and other runtimes, and `HubLayer` to load them.

Encoders and preprocessors follow TF-Hub's text contract,
https://www.tensorflow.org/hub/common_saved_model_apis/text, on top of
https://www.tensorflow.org/hub/reusable_saved_models.
"""

import importlib
from typing import Any

from albert_tf.quiet_import import quiet_by_default

_MODULES = {
    "HubLayer": "hub_layer",
    "export_encoder": "encoder",
    "export_preprocessor": "preprocessor",
    "export_task": "task",
    "export_text_encoder": "text_encoder",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        with quiet_by_default():
            module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
