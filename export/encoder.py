"""Export of an encoder as a SavedModel of TF-Hub's text contract."""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf

from albert_tf.exporting.manifest import UNKNOWN, Origin, describe_weights
from albert_tf.exporting.saved_model import (
    Endpoint,
    Export,
    model_endpoint,
    write_saved_model,
)
from albert_tf.interop.checkpoint import Checkpoint, check_vocabulary
from albert_tf.layers.dropout import dropout_seeds
from albert_tf.models.base import MASKED_LM_POSITIONS
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import (
    ModelGraph,
    Tensors,
    check_encoder,
    draw_dropout_seed,
)
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS


class EncoderGraph(ModelGraph):
    """`tf.function`s of an encoder and its heads, in float32.

    Attributes:
      encoder_variables: `tf.Variable`s of the encoder.
      head_variables: for each head that the model has, "mlm" or "sop" -> its
        `tf.Variable`s.
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
        """Maps the encoder's inputs to the outputs of the contract."""
        inputs = self._with_length_check(inputs)
        with dropout_seeds(draw_dropout_seed() if training else None):
            outputs = self._encoder(inputs, training=training)
        return {**outputs, "default": outputs["pooled_output"]}

    def _mlm(self, inputs: Tensors, training: bool) -> Tensors:
        """Also takes `masked_lm_positions`, and returns `mlm_logits`."""
        # The pretrainer computes the last block at the masked positions only,
        # but the contract also requires the whole sequence.
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
        """Also returns `sop_logits` `[batch, 2]`; class 1 means swapped."""
        outputs = self._encode_for_head(inputs, training)
        logits = self._copy.sop_head(outputs["pooled_output"])
        return {**outputs, "sop_logits": logits}

    def _encode_for_head(self, inputs: Tensors, training: bool) -> Tensors:
        inputs = {name: inputs[name] for name in ENCODER_INPUTS}
        outputs = self.encode(inputs, training)
        del outputs["default"]  # Only the loaded object has a default output.
        return outputs

    def _with_length_check(self, inputs: Tensors) -> Tensors:
        """Makes inputs that are too long fail with a clear message.

        If the length is unknown when a graph is built, the assertion fails.
        If it is known (eager calls, Keras models, and XLA, which drops
        assertions), an operation fails whose name is the message.
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

    `tf.saved_model.load(path)` returns an object with the following interface.
    B is the batch size, S the sequence length, H the hidden size, P the number
    of masked positions and V the vocabulary size:

    - The object itself maps a dict of `input_word_ids`, `input_mask` and
      `input_type_ids`, int32 or int64 `[B, S]`, to a dict of float32
      `sequence_output` `[B, S, H]`, `pooled_output` `[B, H]`, `default` (the
      same tensor) and `encoder_outputs`, a list with the states `[B, S, H]`
      after each block.
      `training=True` applies dropout.
    - `.mlm`, for a pretrainer, also takes `masked_lm_positions` `[B, P]`, and
      returns `mlm_logits` `[B, P, V]` in place of `default`.
    - `.sop`, for a pretrainer with this head, returns `sop_logits` `[B, 2]` in
      place of `default`; class 1 means that the segments are swapped.
    - Each of them has `variables`, `trainable_variables` and
      `regularization_losses`. Those of the object itself exclude the heads.
    - `.call_training`: the object with dropout, for
      `TFSMLayer(path, "__call__", call_training_endpoint="call_training")`.
    - `.signatures["serving_default"]` maps the three named int32 inputs to
      `sequence_output` and `pooled_output`.
    - `.sp_model_file.asset_path` (`.vocab_file.asset_path` for a WordPiece
      tokenizer) and `.do_lower_case`, if there is a tokenizer.

    `export.json` in the folder has versions, config, names and sha256 of the
    weights (`weights_fingerprint`), and the tokenizer.

    Args:
      model: the source of the weights. The export computes in float32, and all
        of its weights are trainable, whatever the model's precision and frozen
        layers.
      path: folder to create. It appears only when it is complete.
      tokenizer: tokenizer of the model, whose file is added as an asset; None
        to export without one.
      packed: whether to remove padding before the blocks, and fill it with
        zeros at the end. Faster on CPUs and GPUs if lengths vary, but not
        supported by XLA and TPUs.
      overwrite: whether to replace a finished export at `path`.
      origin: origin of the weights, for the model card.

    Raises:
      InputError: if `path` exists or cannot be created, the tokenizer has more
        pieces than the model has embeddings, or the model has no pooler.
      TypeError: if `model` is neither an encoder nor a pretrainer.
    """
    check_encoder(model)
    if tokenizer is not None:
        check_vocabulary(tokenizer, model.config)

    def build() -> Export:
        graph = EncoderGraph(model, packed)
        return Export(
            root=_root(graph),
            signatures={"serving_default": _signature(graph)},
            manifest={
                "kind": "encoder",
                "config": model.config.to_dict(),
                "packed": packed,
                **describe_weights(graph.weights()),
            },
        )

    write_saved_model(
        build, path, tokenizer=tokenizer, overwrite=overwrite, origin=origin
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
                # The contract has int32, but NumPy and JSON default to int64.
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


def _signature(graph: EncoderGraph) -> Callable[..., Tensors]:
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


def load_with_heads(
    checkpoint: Checkpoint,
) -> AlbertEncoder | AlbertPretrainer:
    """Loads an encoder, with the pretraining heads that the checkpoint has."""
    if "mlm_head" not in checkpoint.components:
        return AlbertEncoder.from_checkpoint(checkpoint)
    return AlbertPretrainer.from_checkpoint(
        checkpoint, sop_head="sop_head" in checkpoint.components
    )
