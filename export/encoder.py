"""Export of an encoder as a SavedModel of TF-Hub's text contract."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.export.manifest import (
    UNKNOWN,
    Origin,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.export.model_card import describe_export
from albert_tf.export.reference import Case, as_arrays, random_ids
from albert_tf.export.saved_model import (
    Endpoint,
    Tensors,
    add_lower_case,
    model_endpoint,
    write_saved_model,
)
from albert_tf.folders import new_folder
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import ENCODER_INPUTS, MASKED_LM_POSITIONS
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import (
    ModelGraph,
    check_encoder,
    check_vocabulary,
    draw_dropout_seed,
)
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.base_tokenizer import Tokenizer


class EncoderGraph(ModelGraph):
    """`tf.function`s of an encoder and its heads, in float32.

    Attributes:
      encoder_variables: `tf.Variable`s of the encoder.
      head_variables: "mlm" and "sop" -> the variables of that head, for the
        heads that the model has.
    """

    def __init__(self, model: AlbertEncoder | AlbertPretrainer, packed: bool):
        super().__init__(model, packed)
        copy = self._copy
        self._encoder = copy.encoder if hasattr(copy, "encoder") else copy
        self.encoder_variables = _variables(self._encoder)
        heads = {x: getattr(copy, f"{x}_head", None) for x in ("mlm", "sop")}
        self.head_variables = {
            name: _variables(head)
            for name, head in heads.items()
            if head is not None
        }
        self.encode = tf.function(self._encode, autograph=False)
        self.mlm = tf.function(self._mlm, autograph=False)
        self.sop = tf.function(self._sop, autograph=False)

    def _encode(self, inputs: Tensors, training: bool) -> Tensors:
        """The encoder's inputs -> the outputs that the contract requires."""
        inputs = self._with_length_check(inputs)
        with dropout_seeds(draw_dropout_seed() if training else None):
            outputs = self._encoder(inputs, training=training)
        return {**outputs, "default": outputs["pooled_output"]}

    def _mlm(self, inputs: Tensors, training: bool) -> Tensors:
        """... and `masked_lm_positions` -> ... and `mlm_logits`."""
        # Not the pretrainer's shortcut through the last block, as the contract
        # also requires the whole sequence.
        outputs = self._encode_for_head(inputs, training)
        positions = inputs[MASKED_LM_POSITIONS]
        states = tf.gather(outputs["sequence_output"], positions, batch_dims=1)
        logits = self._copy.mlm_head(
            tf.reshape(states, [-1, self.config.hidden_size]),
            self._encoder.word_embeddings,
        )
        shape = tf.concat([tf.shape(positions), [self.config.vocab_size]], 0)
        return {**outputs, "mlm_logits": tf.reshape(logits, shape)}

    def _sop(self, inputs: Tensors, training: bool) -> Tensors:
        """... -> ... and `sop_logits` `[batch, 2]`, class 1 is swapped."""
        outputs = self._encode_for_head(inputs, training)
        logits = self._copy.sop_head(outputs["pooled_output"])
        return {**outputs, "sop_logits": logits}

    def _encode_for_head(self, inputs: Tensors, training: bool) -> Tensors:
        inputs = {name: inputs[name] for name in ENCODER_INPUTS}
        outputs = self.encode(inputs, training)
        del outputs["default"]  # A sub-object has its own main output.
        return outputs

    def _with_length_check(self, inputs: Tensors) -> Tensors:
        """Makes inputs that are too long fail with a clear message.

        Where the length is unknown when a graph is built, the assertion fails.
        Where it is known (eager calls, Keras models, XLA, which drops
        assertions) an operation fails whose name is the message.
        """
        longest = self.config.max_position_embeddings
        word_ids = inputs["input_word_ids"]
        length = tf.shape(word_ids)[1]
        check = tf.debugging.assert_less_equal(
            length,
            longest,
            "input_word_ids is longer than this encoder's "
            f"max_position_embeddings={longest}; shorten the inputs, for "
            "example by the preprocessor's seq_length",
        )
        with tf.control_dependencies([check]):
            word_ids = tf.add(
                word_ids,
                tf.zeros([longest], tf.int32)[:length],
                f"input_word_ids_is_longer_than_max_position_embeddings_{longest}",
            )
        return {**inputs, "input_word_ids": word_ids}


def _variables(layer) -> list[tf.Variable]:
    return [weight.value for weight in layer.weights]


def export_encoder(
    model: AlbertPretrainer | AlbertEncoder,
    path: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | None,
    packed: bool = False,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes an encoder for `hub.KerasLayer`, `HubLayer`, or plain TensorFlow.

    `tf.saved_model.load(path)` returns, with B the batch, S the length, H
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

    `export.json` in the folder has versions, config, names and sha256 of the
    weights (`weights_fingerprint`), and the tokenizer.

    Args:
      model: the source of the weights. The export is float32, and trainable as
        a whole, whatever the model is.
      path: the folder to make. It appears only when it is complete.
      tokenizer: the one that goes with the weights, whose file is put in as an
        asset for the user; None for none.
      packed: remove padding before the blocks and put zeros there at the end.
        Faster on CPUs and GPUs where lengths vary, but not for XLA or TPUs.
      overwrite: replace a SavedModel at `path`.
      origin: of the weights, for the model card.

    Raises:
      InputError: `path` is taken or cannot be made; the tokenizer has more
        pieces than the model has embeddings; the model has no pooler.
      TypeError: `model` is neither an encoder nor a pretrainer.
    """
    check_encoder(model)
    if tokenizer is not None:
        check_vocabulary(tokenizer, model.config)
    with new_folder(path, overwrite) as folder:
        graph = EncoderGraph(model, packed)

        def make():
            root = _root(graph)
            if tokenizer is not None:
                add_lower_case(root, tokenizer)
            return root, {"serving_default": _signature(graph)}

        write_saved_model(make, folder, tokenizer)
        describe_export(
            folder,
            {
                "kind": "encoder",
                "config": model.config.to_dict(),
                "packed": packed,
                **describe_weights(graph.weights()),
                "tokenizer": tokenizer and describe_tokenizer(tokenizer),
            },
            origin,
        )


def _root(graph: EncoderGraph) -> Endpoint:
    def endpoint(body, names, head=""):
        return model_endpoint(
            lambda inputs, training: body(
                {name: tf.cast(x, tf.int32) for name, x in inputs.items()},
                training,
            ),
            [
                {x: tf.TensorSpec([None, None], dtype, x) for x in names}
                # NumPy, JSON and tf.data make int64; the contract has int32.
                for dtype in (tf.int32, tf.int64)
            ],
            graph.encoder_variables + graph.head_variables.get(head, []),
            call_training=not head,
        )

    root = endpoint(graph.encode, ENCODER_INPUTS)
    if "mlm" in graph.head_variables:
        names = (*ENCODER_INPUTS, MASKED_LM_POSITIONS)
        root.mlm = endpoint(graph.mlm, names, "mlm")
    if "sop" in graph.head_variables:
        root.sop = endpoint(graph.sop, ENCODER_INPUTS, "sop")
    return root


def _signature(graph: EncoderGraph):
    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None], tf.int32, name)
            for name in ENCODER_INPUTS
        ],
    )
    def serve(*ids):
        inputs = dict(zip(ENCODER_INPUTS, ids, strict=True))
        outputs = graph.encode(inputs, False)
        return {
            name: outputs[name] for name in ("sequence_output", "pooled_output")
        }

    return serve


def encoder_cases(
    model: AlbertPretrainer | AlbertEncoder, checkpoint: Checkpoint
) -> Iterator[Case]:
    """Yields what an export of a model has to return.

    Args:
      model: the model.
      checkpoint: what it was loaded from.
    """
    heads = isinstance(model, AlbertPretrainer)
    encoder = model.encoder if isinstance(model, AlbertPretrainer) else model
    ids = random_ids(checkpoint, model.config.max_position_embeddings)
    outputs = as_arrays(encoder(ids), "sequence_output", "pooled_output")
    yield Case("random ids", "", ids, outputs)
    if not heads:
        return
    # The first and the last real token, and one in the middle.
    last = np.sum(ids["input_mask"], axis=1) - 1
    positions = np.stack([0 * last, last, last // 2], 1).astype("int32")
    inputs = {**ids, MASKED_LM_POSITIONS: positions}
    outputs = model(inputs)
    yield Case("random ids", "mlm", inputs, as_arrays(outputs, "mlm_logits"))
    if "sop_logits" in outputs:
        yield Case("random ids", "sop", ids, as_arrays(outputs, "sop_logits"))
