"""Export of a tokenizer and an encoder as one SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.encoder import EncoderGraph
from albert_tf.export.manifest import (
    UNKNOWN,
    Origin,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.export.model_card import describe_export
from albert_tf.export.reference import TEXTS, Case, as_arrays, strings, text_ids
from albert_tf.export.saved_model import (
    Endpoint,
    Tensors,
    add_lower_case,
    tokenize_endpoint,
    write_saved_model,
)
from albert_tf.folders import new_folder
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import check_encoder, check_vocabulary
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import GraphPreprocessor

_SHORTEST = 3
_TEXTS = tf.TensorSpec([None], tf.string, "text")


def export_text_encoder(
    model: AlbertPretrainer | AlbertEncoder,
    path: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer,
    seq_length: int | None = None,
    packed: bool = True,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes text -> vectors, for servers, `hub.KerasLayer` and `HubLayer`.

    `tf.saved_model.load(path)` returns, after `import tensorflow_text`, with
    B the batch, S the length of its longest row and H the hidden size:

    - The object itself: strings `[B]`, or a list of two such tensors for
      pairs -> a dict of

      - `pooled_output` float32 `[B, H]`, and `default`, the same
      - `mean_output` float32 `[B, H]`: the mean of `sequence_output` over all
        tokens but padding; `[CLS]` and `[SEP]` count, so that an empty text
        has one
      - `sequence_output` float32 `[B, S, H]`
      - `input_word_ids`, `input_mask` and `input_type_ids` int32 `[B, S]`

      `training=True` switches dropout on; `seq_length=64`, an int or an int32
      scalar, cuts rows to another length.
    - `variables`, `trainable_variables`, `regularization_losses`.
    - `.call_training`: the object with dropout on, for
      `TFSMLayer(path, "__call__", call_training_endpoint="call_training")`.
    - `.tokenize` and `.tokenize.get_special_tokens_dict`, as the preprocessor
      has them: see `export_preprocessor`.
    - `.signatures["serving_default"]`: `text`, strings `[B]` ->
      `pooled_output` and `mean_output`.
    - `.signatures["sequence"]`: `text` -> `sequence_output` and the three
      inputs.
    - `.sp_model_file.asset_path` (of a `vocab.txt`, `.vocab_file.asset_path`)
      and `.do_lower_case`.

    Args:
      model: the source of the weights. The export is float32, and trainable as
        a whole, whatever the model is.
      path: the folder to make. It appears only when it is complete.
      tokenizer: the one that goes with the weights.
      seq_length: tokens that a row is cut to; None for as many as the model
        takes.
      packed: remove padding before the blocks and put zeros there at the end.
        Faster on CPUs and GPUs where lengths vary.
      overwrite: replace a SavedModel at `path`.
      origin: of the weights, for the model card.

    Raises:
      InputError: `path` is taken or cannot be made; the tokenizer cannot be put
        into a graph, or has more pieces than the model has embeddings;
        `seq_length` is too small for a pair or beyond the model's; the model
        has no pooler; Keras computes with another backend.
      TypeError: `model` is something else.
    """
    encoder = check_encoder(model)
    longest = model.config.max_position_embeddings
    seq_length = longest if seq_length is None else seq_length
    if not _SHORTEST <= seq_length <= longest:
        raise InputError(
            f"seq_length={seq_length} must be from {_SHORTEST}, to hold [CLS] "
            f"and the two [SEP] of a pair, to {longest}, the model's "
            "max_position_embeddings"
        )
    check_vocabulary(tokenizer, model.config)
    with new_folder(path, overwrite) as folder:
        graph = EncoderGraph(encoder, packed)
        preprocessor = GraphPreprocessor(tokenizer, seq_length)
        inputs = ("input_word_ids", "input_mask", "input_type_ids")
        signatures = {
            "serving_default": ("pooled_output", "mean_output"),
            "sequence": ("sequence_output", *inputs),
        }

        def make():
            root = _root(graph, preprocessor)
            add_lower_case(root, tokenizer)
            return root, {
                name: _signature(root, x) for name, x in signatures.items()
            }

        write_saved_model(make, folder, tokenizer)
        describe_export(
            folder,
            {
                "kind": "text_encoder",
                "seq_length": seq_length,
                "config": model.config.to_dict(),
                "packed": packed,
                **describe_weights(graph.weights()),
                "tokenizer": describe_tokenizer(tokenizer),
            },
            origin,
        )


def _root(graph: EncoderGraph, preprocessor: GraphPreprocessor) -> Endpoint:
    default = preprocessor.seq_length
    tokenize = tokenize_endpoint(preprocessor)

    # The other functions call this one and `tokenize`, so that there is one
    # graph of each, and the others are traced quickly.
    @tf.function(autograph=False)
    def embed(inputs, training, seq_length):
        texts = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        segments = [tokenize.__call__(text) for text in texts]
        rows = preprocessor.pack_to_longest(segments, seq_length)
        outputs = graph.encode(rows, training)
        # The encoder's export has the states of every block.
        del outputs["encoder_outputs"]
        mean = _mean(outputs["sequence_output"], rows["input_mask"])
        return {**outputs, "mean_output": mean, **rows}

    @tf.function(autograph=False)
    def call(inputs, training=False, seq_length=default):
        return embed(inputs, training, tf.cast(seq_length, tf.int32))

    @tf.function(autograph=False)
    def call_training(inputs):
        return embed(inputs, True, tf.constant(default))

    # Under the argument's name: one without is traced again by saving.
    any_length = tf.TensorSpec([], tf.int32, "seq_length")
    for inputs in (_TEXTS, [_TEXTS, _TEXTS]):
        for training in (False, True):
            call.get_concrete_function(inputs, training=training)
            call.get_concrete_function(
                inputs, training=training, seq_length=any_length
            )
        call_training.get_concrete_function(inputs)
    root = Endpoint(call, graph.encoder_variables)
    root.call_training = call_training
    root.tokenize = tokenize
    # The functions need the tables and the vocabulary in it.
    root._preprocessor = preprocessor
    return root


def _mean(states: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Means over the tokens of rows: `[B, S, H]`, `[B, S]` -> `[B, H]`."""
    weights = tf.cast(mask, states.dtype)[:, :, None]
    # Each row has [CLS] at least.
    return tf.reduce_sum(states * weights, 1) / tf.reduce_sum(weights, 1)


def _signature(
    root: Endpoint, names: tuple[str, ...]
) -> Callable[..., Tensors]:
    @tf.function(input_signature=[_TEXTS], autograph=False)
    def serve(text):
        outputs = root.__call__(text)
        return {name: outputs[name] for name in names}

    return serve


def text_encoder_cases(
    encoder: AlbertEncoder, tokenizer: Tokenizer, seq_length: int
) -> Iterator[Case]:
    """Yields what an export of an encoder with its tokenizer has to return."""
    rows = text_ids(tokenizer, seq_length, "longest")
    outputs = as_arrays(encoder(rows), "pooled_output", "sequence_output")
    states, mask = outputs.pop("sequence_output"), rows["input_mask"]
    mean = np.einsum("bsh,bs->bh", states, mask) / mask.sum(1)[:, None]
    texts, outputs["mean_output"] = strings(text=TEXTS), mean
    yield Case("text", "serving_default", texts, outputs)
    yield Case("text", "sequence", texts, {"sequence_output": states, **rows})
