"""The `.tokenize` of what takes strings, as TF-Hub's text contract has it."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.endpoint import Endpoint
from albert_tf.text.preprocessor import AlbertPreprocessor


def tokenize_endpoint(preprocessor: AlbertPreprocessor) -> Endpoint:
    """Returns what maps strings `[B]` to ragged int32 ids `[B, (tokens)]`.

    Its `get_special_tokens_dict` takes nothing and gives int32 scalars. Other
    functions that call its `__call__` share its one graph.
    """
    endpoint = Endpoint(
        tf.function(
            preprocessor.tokenize,
            input_signature=[tf.TensorSpec([None], tf.string, "text")],
            autograph=False,
        )
    )
    endpoint.get_special_tokens_dict = tf.function(
        preprocessor.get_special_tokens_dict,
        input_signature=[],
        autograph=False,
    )
    return endpoint
