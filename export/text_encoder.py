"""Export of a tokenizer and an encoder as one SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.encoder import EncoderGraph
from albert_tf.exporting.manifest import UNKNOWN, Origin, describe_weights
from albert_tf.exporting.saved_model import (
    MIN_LENGTH,
    TEXTS,
    Endpoint,
    Export,
    tokenize_endpoint,
    write_saved_model,
)
from albert_tf.interop.checkpoint import check_vocabulary
from albert_tf.layers.pooling import mean_pooling
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import (
    Tensors,
    check_encoder,
)
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS, pack_to_longest
from albert_tf.text.preprocessor import (
    GraphPreprocessor,
    check_seq_length,
    ragged_segment,
)

# Signature -> its outputs.
_SIGNATURES = {
    "serving_default": ("pooled_output", "mean_output"),
    "sequence": ("sequence_output", *ENCODER_INPUTS),
}


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
    """Writes a model from texts to vectors, for servers and `HubLayer`.

    `tf.saved_model.load(path)`, after `import tensorflow_text`, returns an
    object with the following interface. B is the batch size, S the length of
    the longest row in the batch and H the hidden size:

    - The object itself maps strings `[B]`, or a list of two such tensors for
      pairs, to a dict of

      - `pooled_output` float32 `[B, H]`, and `default`, the same tensor
      - `mean_output` float32 `[B, H]`: the mean of `sequence_output` over all
        tokens but padding. `[CLS]` and `[SEP]` count, so that an empty text
        has a mean
      - `sequence_output` float32 `[B, S, H]`
      - `input_word_ids`, `input_mask` and `input_type_ids` int32 `[B, S]`

      `training=True` applies dropout; `seq_length=64`, an int or an int32
      scalar, changes the maximum length of rows.
    - `variables`, `trainable_variables`, `regularization_losses`.
    - `.call_training`: the object with dropout, for
      `TFSMLayer(path, "__call__", call_training_endpoint="call_training")`.
    - `.tokenize` and `.tokenize.get_special_tokens_dict`, see
      `export_preprocessor`.
    - `.signatures["serving_default"]` maps strings `text` `[B]` to
      `pooled_output` and `mean_output`.
    - `.signatures["sequence"]` maps `text` to `sequence_output` and the three
      inputs of the encoder.
    - `.sp_model_file.asset_path` (`.vocab_file.asset_path` for a WordPiece
      tokenizer) and `.do_lower_case`.

    Args:
      model: the source of the weights. The export computes in float32, and all
        of its weights are trainable, whatever the model's precision and frozen
        layers.
      path: folder to create. It appears only when it is complete.
      tokenizer: tokenizer of the model.
      seq_length: maximum number of tokens in a row; None for the number of
        positions that the model was trained with.
      packed: whether to remove padding before the blocks, and fill it with
        zeros at the end. Faster on CPUs and GPUs if lengths vary.
      overwrite: whether to replace a finished export at `path`.
      origin: origin of the weights, for the model card.

    Raises:
      InputError: if `path` exists or cannot be created, the tokenizer is not
        supported in a graph or has more pieces than the model has embeddings,
        `seq_length` is too small for a pair or too large for the model, the
        model has no pooler, or Keras uses another backend than TensorFlow.
      TypeError: if `model` is neither an encoder nor a pretrainer.
    """
    encoder = check_encoder(model)
    longest = model.config.max_position_embeddings
    if seq_length is None:
        seq_length = model.config.num_trained_positions
    if not MIN_LENGTH <= seq_length <= longest:
        raise InputError(
            f"seq_length={seq_length} must be from {MIN_LENGTH}, to hold [CLS] "
            f"and the two [SEP] of a pair, to {longest}, the model's "
            "max_position_embeddings"
        )
    check_vocabulary(tokenizer, model.config)

    def build() -> Export:
        graph = EncoderGraph(encoder, packed)
        root = _root(graph, GraphPreprocessor(tokenizer, seq_length))
        return Export(
            root=root,
            signatures={
                name: _signature(root, outputs)
                for name, outputs in _SIGNATURES.items()
            },
            manifest={
                "kind": "text_encoder",
                "seq_length": seq_length,
                "config": model.config.to_dict(),
                "packed": packed,
                **describe_weights(graph.weights()),
            },
        )

    write_saved_model(
        build, path, tokenizer=tokenizer, overwrite=overwrite, origin=origin
    )


def _root(graph: EncoderGraph, preprocessor: GraphPreprocessor) -> Endpoint:
    default = preprocessor.seq_length
    tokenize = tokenize_endpoint(preprocessor)

    # The other functions call this one and `tokenize`, so that each is traced
    # once.
    @tf.function(autograph=False)
    def embed(inputs, training, seq_length):
        texts = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        segments = [ragged_segment(tokenize.__call__(text)) for text in texts]
        seq_length = check_seq_length(seq_length, 1 + len(segments))
        rows = pack_to_longest(
            preprocessor.ops, preprocessor.tokenizer, segments, seq_length
        )
        outputs = graph.encode(rows, training)
        # Only the export of the encoder returns the states of every block.
        del outputs["encoder_outputs"]
        mean = mean_pooling(outputs["sequence_output"], rows["input_mask"])
        return {**outputs, "mean_output": mean, **rows}

    @tf.function(autograph=False)
    def call(inputs, training=False, seq_length=default):
        return embed(inputs, training, tf.cast(seq_length, tf.int32))

    @tf.function(autograph=False)
    def call_training(inputs):
        return embed(inputs, True, tf.constant(default))

    # Saving would trace a function with an unnamed argument again.
    any_length = tf.TensorSpec([], tf.int32, "seq_length")
    for inputs in (TEXTS, [TEXTS, TEXTS]):
        for training in (False, True):
            call.get_concrete_function(inputs, training=training)
            call.get_concrete_function(
                inputs, training=training, seq_length=any_length
            )
        call_training.get_concrete_function(inputs)
    root = Endpoint(call, graph.encoder_variables)
    root.call_training = call_training
    root.tokenize = tokenize
    # Holds the lookup tables and the vocabulary of the functions.
    root._preprocessor = preprocessor
    return root


def _signature(
    root: Endpoint, names: tuple[str, ...]
) -> Callable[..., Tensors]:
    @tf.function(input_signature=[TEXTS], autograph=False)
    def serve(text):
        outputs = root.__call__(text)
        return {name: outputs[name] for name in names}

    return serve
