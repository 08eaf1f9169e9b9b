"""Building blocks of SavedModels that follow TF-Hub's text contract."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.saved_model import save_context

from albert_tf.exporting.manifest import (
    MANIFEST,
    Origin,
    describe_tokenizer,
)
from albert_tf.exporting.model_card import describe_export
from albert_tf.folders import new_folder
from albert_tf.interop.file_types import check_tf_path
from albert_tf.models.model_graph import Tensors
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

# The shortest row that holds [CLS] and the two [SEP] of a pair.
MIN_LENGTH = 3

TEXTS = tf.TensorSpec([None], tf.string, "text")


class Endpoint(tf.train.Checkpoint):
    """A callable object with the attributes that the contract requires.

    Not a `tf.Module`, whose `variables` property looks for `tf.Variable`
    attributes, and not a Keras object, which cannot be loaded without Keras.

    Attributes:
      variables: all variables that a call may read.
      trainable_variables: the same variables, as all of them can be fine-tuned.
      regularization_losses: empty, as ALBERT has no such losses.

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


class Export(NamedTuple):
    """What to write as a SavedModel.

    Attributes:
      root: the object to save.
      signatures: name -> function, concrete or with an input signature.
      manifest: contents of `export.json`, without the tokenizer, the origin and
        the versions.
    """

    root: Endpoint
    signatures: Mapping[str, Callable]
    manifest: Mapping[str, Any]


def model_endpoint(
    body: Callable[[Any, bool], Tensors],
    specs: Sequence[Any],
    variables: Sequence[tf.Variable],
    *,
    call_training: bool = True,
) -> Endpoint:
    """Makes the endpoint of a model: `(inputs, training=False)`.

    Args:
      body: a function of the inputs and a Python bool `training`. It should
        call a single `tf.function`, so that all traces share one graph and add
        little to the file.
      specs: input specs to trace, each with both values of `training`.
      variables: all variables that a call may read.
      call_training: whether to add `call_training`, the endpoint with
        `training=True`. `keras.layers.TFSMLayer` does not pass `training`, but
        calls a second endpoint in training.
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
    """Makes the endpoint that maps strings `[B]` to ragged ids `[B, (tokens)]`.

    Its `get_special_tokens_dict` takes no arguments and returns int32 scalars.
    Functions that call its `__call__` share its graph.
    """
    endpoint = Endpoint(
        tf.function(
            preprocessor.tokenize, input_signature=[TEXTS], autograph=False
        )
    )
    endpoint.get_special_tokens_dict = tf.function(
        preprocessor.get_special_tokens_dict,
        input_signature=[],
        autograph=False,
    )
    return endpoint


def write_saved_model(
    build: Callable[[], Export],
    path: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | None,
    overwrite: bool,
    origin: Origin,
) -> None:
    """Writes a SavedModel with the tokenizer's file, a card and `export.json`.

    Args:
      build: traces the functions to save. Functions that were traced outside of
        this call would be traced again by saving.
      path: folder to create. It appears only when it is complete.
      tokenizer: tokenizer whose file is added as an asset; None for none.
      overwrite: whether to replace a finished export at `path`.
      origin: origin of the weights, for the model card.

    Raises:
      InputError: if `path` exists or cannot be created, or TensorFlow takes
        it for a pattern.
    """
    check_tf_path(path)
    with (
        new_folder(path, overwrite, MANIFEST) as folder,
        tempfile.TemporaryDirectory() as assets,
    ):
        with save_context.save_context(tf.saved_model.SaveOptions()):
            root, signatures, manifest = build()
        if tokenizer is not None:
            file = pathlib.Path(assets, tokenizer.file_name)
            file.write_bytes(tokenizer.model_bytes)
            is_wordpiece = isinstance(tokenizer, AlbertWordPieceTokenizer)
            name = "vocab_file" if is_wordpiece else "sp_model_file"
            setattr(root, name, tf.saved_model.Asset(os.fspath(file)))
            if manifest["kind"] != "preprocessor":
                # A variable, as the contract has it, but not in `variables`, as
                # no computation depends on it.
                root.do_lower_case = tf.Variable(
                    tokenizer.settings["do_lower_case"], trainable=False
                )
        tf.saved_model.save(root, os.fspath(folder), signatures=signatures)
        described = tokenizer and describe_tokenizer(tokenizer)
        describe_export(folder, {**manifest, "tokenizer": described}, origin)
