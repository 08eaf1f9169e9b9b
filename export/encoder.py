"""Writes an encoder as the SavedModel that TF-Hub's text contract describes."""

from __future__ import annotations

import os
import pathlib

import tensorflow as tf

from albert_tf.export.assets import attach_tokenizer
from albert_tf.export.describe import describe_export
from albert_tf.export.encoder_graph import EncoderGraph
from albert_tf.export.endpoint import (
    Endpoint,
    dict_function,
    training_function,
)
from albert_tf.export.manifest import describe_weights
from albert_tf.export.origin import UNKNOWN, Origin
from albert_tf.export.requirements import check_encoder, check_vocabulary
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS, MASKED_LM_POSITIONS
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.new_folder import new_folder
from albert_tf.text.tokenizer import AlbertTokenizer


def export_encoder(
    model: AlbertPretrainer | AlbertEncoder,
    path: str | os.PathLike[str],
    *,
    tokenizer_model: str | os.PathLike[str] | None,
    do_lower_case: bool = True,
    packed: bool = False,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes an encoder for `hub.KerasLayer`, `HubLayer`, or plain TensorFlow.

    What `tf.saved_model.load(path)` gives, with B the batch, S the length, H
    the hidden size, P the number of masked positions and V the vocabulary:

    - The object itself: a dict of int32 (or int64) `[B, S]` named
      `input_word_ids`, `input_mask` and `input_type_ids` -> a dict of float32
      `sequence_output` `[B, S, H]`, `pooled_output` `[B, H]`, `default` (the
      same) and `encoder_outputs`, a list of `[B, S, H]`, one a block.
      `training=True` switches dropout on.
    - `.mlm`, of a pretrainer: also `masked_lm_positions` `[B, P]`; the outputs
      but `default`, and `mlm_logits` `[B, P, V]`.
    - `.sop`, of a pretrainer with this head: the outputs but `default`, and
      `sop_logits` `[B, 2]`; class 1 means that the segments are swapped.
    - All of them: `variables`, `trainable_variables`, `regularization_losses`.
      The object's own leave out the heads.
    - `.call_training`: the object with dropout on, for
      `TFSMLayer(path, "__call__", call_training_endpoint="call_training")`.
    - `.signatures["serving_default"]`: three named int32 inputs ->
      `sequence_output` and `pooled_output`.
    - `.sp_model_file.asset_path` (of a `vocab.txt`, `.vocab_file.asset_path`)
      and `.do_lower_case`, if there is a tokenizer.

    `export.json` in the folder says how it was made: versions, config, names
    and sha256 of the weights (`weights_fingerprint`), and the tokenizer.

    Args:
      model: the source of the weights. The export is float32, and trainable as
        a whole, whatever the model is.
      path: the folder to make. It appears only when it is complete.
      tokenizer_model: the SentencePiece model or the `vocab.txt` that goes
        with the weights, put in as an asset for the user; None for none.
      do_lower_case: whether text is lower-cased before that model sees it.
      packed: remove padding before the blocks and put zeros there at the end.
        Faster on CPUs and GPUs where lengths vary, but not for XLA or TPUs.
      overwrite: replace a SavedModel at `path`.
      origin: what the model card says of the weights.

    Raises:
      InputError: `path` is taken or cannot be made; the tokenizer cannot be
        read, or has more pieces than the model has embeddings; the model has no
        pooler.
      TypeError: `model` is something else.
    """
    check_encoder(model)
    tokenizer = None
    if tokenizer_model is not None:
        tokenizer = AlbertTokenizer.from_file(
            tokenizer_model, do_lower_case=do_lower_case
        )
        check_vocabulary(tokenizer, tokenizer_model, model.config)
    with new_folder(path, overwrite) as folder:
        graph = EncoderGraph(model, packed)
        root = _root(graph)
        if tokenizer is not None:
            attach_tokenizer(root, tokenizer, tokenizer_model)
        tf.saved_model.save(
            root,
            os.fspath(folder),
            signatures={"serving_default": _signature(graph)},
        )
        describe_export(
            folder,
            {
                "kind": "encoder",
                "config": model.config.to_dict(),
                "packed": packed,
                **describe_weights(graph.weights()),
                "tokenizer": tokenizer
                and {
                    "file": pathlib.Path(tokenizer_model).name,
                    "do_lower_case": do_lower_case,
                    "fingerprint": tokenizer.fingerprint,
                },
            },
            origin,
        )


def _root(graph: EncoderGraph) -> Endpoint:
    root = Endpoint(
        dict_function(graph.encode, ENCODER_INPUTS), graph.variables
    )
    root.call_training = training_function(graph.encode, ENCODER_INPUTS)
    if "mlm" in graph.head_variables:
        root.mlm = Endpoint(
            dict_function(graph.mlm, (*ENCODER_INPUTS, MASKED_LM_POSITIONS)),
            graph.variables + graph.head_variables["mlm"],
        )
    if "sop" in graph.head_variables:
        root.sop = Endpoint(
            dict_function(graph.sop, ENCODER_INPUTS),
            graph.variables + graph.head_variables["sop"],
        )
    return root


def _signature(graph: EncoderGraph):
    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name)
            for name in ENCODER_INPUTS
        ],
    )
    def serve(input_word_ids, input_mask, input_type_ids):
        outputs = graph.encode(
            {
                "input_word_ids": input_word_ids,
                "input_mask": input_mask,
                "input_type_ids": input_type_ids,
            },
            False,
        )
        return {
            name: outputs[name] for name in ("sequence_output", "pooled_output")
        }

    return serve
