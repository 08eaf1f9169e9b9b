"""Building blocks of SavedModels that follow TF-Hub's text contract."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.models.model_graph import Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


class Endpoint(tf.train.Checkpoint):
    """A callable object with the attributes that the contract requires.

    Not a `tf.Module`, whose `variables` property looks for `tf.Variable`
    attributes, and not a Keras object, which would need Keras to load.

    Attributes:
      variables: all variables that a call may read.
      trainable_variables: the same, as all of them can be fine-tuned.
      regularization_losses: empty; ALBERT has no such loss.

    Args:
      function: `__call__`, a traced `tf.function`.
      variables: see the attribute.
    """

    def __init__(
        self, function: Callable, variables: Sequence[tf.Variable] = ()
    ):
        super().__init__()
        self.__call__ = function
        self.variables = list(variables)
        self.trainable_variables = list(variables)
        self.regularization_losses = []


def dict_function(
    body: Callable[[Tensors, bool], Tensors], names: Sequence[str]
) -> Callable:
    """Makes the `__call__` of an endpoint that maps a dict to a dict.

    Args:
      body: a `tf.function` of a dict of int32 `[batch, size]` and a Python bool
        `training`. It is called, not inlined, so all functions made from one
        body share its graphs, and add little to the file.
      names: the keys of the dict.

    Returns:
      A `tf.function` of `(inputs, training=False)`, traced for both values and
      for inputs that are all int32 or all int64.
    """

    @tf.function(autograph=False)
    def call(inputs, training=False):
        return body(_as_int32(inputs), training)

    for inputs in _input_specs(names):
        for training in (False, True):
            call.get_concrete_function(inputs, training=training)
    return call


def training_function(
    body: Callable[[Tensors, bool], Tensors], names: Sequence[str]
) -> Callable:
    """Like `dict_function`, always with `training=True`.

    `keras.layers.TFSMLayer` passes no `training`, but has a second endpoint.
    """

    @tf.function(autograph=False)
    def call(inputs):
        return body(_as_int32(inputs), True)

    for inputs in _input_specs(names):
        call.get_concrete_function(inputs)
    return call


def _as_int32(inputs: Tensors) -> Tensors:
    return {name: tf.cast(x, tf.int32) for name, x in inputs.items()}


def _input_specs(names: Sequence[str]) -> list[dict[str, tf.TensorSpec]]:
    return [
        {name: tf.TensorSpec([None, None], dtype, name) for name in names}
        # NumPy, JSON and tf.data make int64; the contract asks for int32.
        for dtype in (tf.int32, tf.int64)
    ]


def tokenize_endpoint(preprocessor: GraphPreprocessor) -> Endpoint:
    """Makes the endpoint of strings `[B]` -> ragged int32 ids `[B, (tokens)]`.

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


def attach_tokenizer(
    root: Endpoint, tokenizer: Tokenizer, path: str | os.PathLike[str]
) -> None:
    """Adds the vocabulary file and `do_lower_case` to an encoder.

    Args:
      root: the exported object.
      tokenizer: the tokenizer.
      path: its file.
    """
    attach_vocabulary(root, tokenizer, path)
    # A variable, as in other encoders of the contract, but not in `variables`,
    # as no computation depends on it.
    root.do_lower_case = tf.Variable(
        tokenizer.settings["do_lower_case"], trainable=False
    )


def attach_vocabulary(
    root: Endpoint, tokenizer: Tokenizer, path: str | os.PathLike[str]
) -> None:
    """Adds a vocabulary file under the contract's name for its type.

    Args:
      root: the exported object.
      tokenizer: the tokenizer, which decides the name.
      path: its file.
    """
    asset = tf.saved_model.Asset(os.fspath(path))
    if isinstance(tokenizer, WordPieceTokenizer):
        root.vocab_file = asset
    else:
        root.sp_model_file = asset
