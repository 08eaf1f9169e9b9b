"""Building blocks of SavedModels that follow TF-Hub's text contract."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python.saved_model import save_context

from albert_tf.models.model_graph import Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

# Name -> function, concrete or of one input signature.
Signatures = TypeVar("Signatures", bound=Mapping[str, Callable])


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


def model_endpoint(
    body: Callable[[Any, bool], Tensors],
    specs: Sequence[Any],
    variables: Sequence[tf.Variable],
    *,
    call_training: bool = True,
) -> Endpoint:
    """Makes the endpoint of a model: `(inputs, training=False)`.

    Args:
      body: a function of inputs and a Python bool `training` that calls one
        `tf.function`, so that all functions made here share its graphs, and add
        little to the file.
      specs: the inputs it is traced for, with both values of `training`.
      variables: all variables that a call may read.
      call_training: whether it has a function of that name, with
        `training=True`: `keras.layers.TFSMLayer` passes no `training`, but has
        a second endpoint.
    """

    @tf.function(autograph=False)
    def call(inputs, training=False):
        return body(inputs, training)

    @tf.function(autograph=False)
    def with_dropout(inputs):
        return body(inputs, True)

    for inputs in specs:
        for training in (False, True):
            call.get_concrete_function(inputs, training=training)
        if call_training:
            with_dropout.get_concrete_function(inputs)
    endpoint = Endpoint(call, variables)
    if call_training:
        endpoint.call_training = with_dropout
    return endpoint


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


def write_saved_model(
    make: Callable[[], tuple[Endpoint, Signatures]],
    folder: pathlib.Path,
    tokenizer: Tokenizer | None,
) -> Signatures:
    """Writes an object, with its tokenizer's file under the contract's name.

    Args:
      make: returns the object and its signatures. It is called here because
        functions that were traced elsewhere are traced again while they are
        saved.
      folder: to write to.
      tokenizer: whose file is written; None: it has none.

    Returns:
      The signatures.
    """
    with save_context.save_context(tf.saved_model.SaveOptions()):
        root, signatures = make()
    with tempfile.TemporaryDirectory() as assets:
        if tokenizer is not None:
            file = pathlib.Path(assets, tokenizer.file_name)
            file.write_bytes(tokenizer.model_bytes)
            is_wordpiece = isinstance(tokenizer, WordPieceTokenizer)
            name = "vocab_file" if is_wordpiece else "sp_model_file"
            setattr(root, name, tf.saved_model.Asset(os.fspath(file)))
        tf.saved_model.save(root, os.fspath(folder), signatures=signatures)
    return signatures


def add_lower_case(root: Endpoint, tokenizer: Tokenizer) -> None:
    """Adds `do_lower_case`, as encoders of the contract have it."""
    # A variable, but not in `variables`, as no computation depends on it.
    root.do_lower_case = tf.Variable(
        tokenizer.settings["do_lower_case"], trainable=False
    )
