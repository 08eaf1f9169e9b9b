"""Reads the TF1 checkpoints of the original (google-research/albert)."""

from __future__ import annotations

import os
import re

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError

# Our variable path -> the original's name. Google's kernels are [in, out], as
# ours are, and query, key and value are 2-D there too.
_NAMES = (
    (r"encoder/embeddings/layer_norm/", "bert/embeddings/LayerNorm/"),
    (r"encoder/embeddings/", "bert/embeddings/"),
    (
        r"encoder/embedding_projection/",
        "bert/encoder/embedding_hidden_mapping_in/",
    ),
    (
        r"encoder/transformer/group_(\d+)/inner_(\d+)/",
        r"bert/encoder/transformer/group_\1/inner_group_\2/",
    ),
    (r"/attention/(query|key|value)/", r"/attention_1/self/\1/"),
    (r"/attention/output/", "/attention_1/output/dense/"),
    (r"/attention/layer_norm/", "/LayerNorm/"),
    (r"/feed_forward/intermediate/", "/ffn_1/intermediate/dense/"),
    (r"/feed_forward/output/", "/ffn_1/intermediate/output/dense/"),
    (r"/feed_forward/layer_norm/", "/LayerNorm_1/"),
    (r"encoder/pooler/", "bert/pooler/dense/"),
    (r"mlm_head/dense/", "cls/predictions/transform/dense/"),
    (r"mlm_head/layer_norm/", "cls/predictions/transform/LayerNorm/"),
    (r"mlm_head/output_bias", "cls/predictions/output_bias"),
    (r"sop_head/kernel", "cls/seq_relationship/output_weights"),
    (r"sop_head/bias", "cls/seq_relationship/output_bias"),
)
_TRANSPOSED = "sop_head/kernel"  # the original's is [classes, hidden]
_NOT_WEIGHTS = re.compile(r"(^|/)(global_step|adam_m|adam_v)$")


def google_name(path: str) -> str:
    """Returns the original's name of our variable `path`."""
    for pattern, replacement in _NAMES:
        path = re.sub(pattern, replacement, path)
    return path


def read_google_weights(
    model, checkpoint: str | os.PathLike[str]
) -> dict[str, np.ndarray]:
    """Reads the weights of `model` from a TF1 checkpoint.

    Args:
      model: an `AlbertEncoder` or `AlbertPretrainer`.
      checkpoint: the prefix, such as "albert_base/model.ckpt-best".

    Returns:
      Variable path -> array of the variable's shape. Optimizer slots and
      `global_step` are left out.

    Raises:
      InputError: the checkpoint cannot be read, lacks a variable, holds it in
        another shape, or holds encoder weights that the model has no place for
        (such as a second group).
    """
    try:
        reader = tf.train.load_checkpoint(os.fspath(checkpoint))
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(
            f"{checkpoint} is not a TensorFlow checkpoint: {error}"
        ) from None
    shapes = reader.get_variable_to_shape_map()
    names = {v.path: google_name(v.path) for v in model.trainable_variables}
    missing = sorted(set(names.values()) - set(shapes))
    if missing:
        raise InputError(f"{checkpoint} lacks {', '.join(missing)}")
    unread = sorted(
        name
        for name in set(shapes) - set(names.values())
        if name.startswith("bert/") and not _NOT_WEIGHTS.search(name)
    )
    if unread:
        raise InputError(
            f"{checkpoint} holds weights that this config has no place for: "
            f"{', '.join(unread)}"
        )
    weights = {}
    for variable in model.trainable_variables:
        value = reader.get_tensor(names[variable.path])
        if variable.path == _TRANSPOSED:
            value = value.T
        if value.shape != tuple(variable.shape):
            raise InputError(
                f"{checkpoint}: {names[variable.path]} has shape "
                f"{list(value.shape)}, the model expects "
                f"{list(variable.shape)}"
            )
        weights[variable.path] = value
    return weights


def load_google_checkpoint(model, checkpoint: str | os.PathLike[str]) -> None:
    """Sets the weights of `model` from a TF1 checkpoint; see the reader."""
    weights = read_google_weights(model, checkpoint)
    for variable in model.trainable_variables:
        variable.assign(weights[variable.path])
