"""ALBERT for TensorFlow 2 and Keras 3, from raw text to TF-Hub.

The public names. Each is imported when it is first used, so that
`import albert_tf` and `albert --help` do not wait for TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_HOMES = {
    "AlbertClassifier": "albert_tf.models.classifier",
    "AlbertConfig": "albert_tf.config",
    "AlbertEncoder": "albert_tf.models.encoder",
    "AlbertMultipleChoice": "albert_tf.models.multiple_choice",
    "AlbertPreprocessor": "albert_tf.text.preprocessor",
    "AlbertPretrainer": "albert_tf.models.pretrainer",
    "AlbertSpanLabeler": "albert_tf.models.span_labeler",
    "AlbertTokenClassifier": "albert_tf.models.token_classifier",
    "AlbertTokenizer": "albert_tf.text.tokenizer",
    "HubLayer": "albert_tf.export.hub_layer",
    "InputError": "albert_tf.errors",
    "WordPieceTokenizer": "albert_tf.text.wordpiece_tokenizer",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'albert_tf' has no attribute {name!r}")


def __dir__():
    return [*__all__, "__version__"]
