"""The ALBERT encoder."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.core import dense
from albert_tf.layers.embeddings import Embeddings
from albert_tf.layers.pooling import mean_pooling
from albert_tf.layers.shared_stack import SharedStack
from albert_tf.layers.token_rows import PackedRows, PaddedRows
from albert_tf.models.base import AlbertModel
from albert_tf.models.inputs import (
    as_integers,
    check_shapes,
    first_tokens,
    sequence_inputs,
)
from albert_tf.text.packing import ENCODER_INPUTS


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(AlbertModel):
    """Factorized embeddings, a stack of shared blocks, and a pooler.

    Inputs are a dict of integer tensors `[batch, seq]`: `input_word_ids`,
    `input_mask` (1 for tokens, 0 for padding) and `input_type_ids` (segments).
    As for every model, Hugging Face's names `input_ids`, `attention_mask` and
    `token_type_ids` are accepted as well, a list in this order, and ids alone:
    the mask is then 0 where an id is 0, and all types are 0.

    A row may have several sequences, each with its own `[CLS]`. They do not
    attend to each other, and their positions start at 0. Two more inputs
    describe them:

    - `sequence_ids` `[batch, seq]`: 1 for the tokens of a row's first sequence,
      2 for those of its second, ...; 0 for padding
    - `sequence_starts` `[batch, sequences]`: the first position of each
      sequence; 0 for sequences that a row does not have

    Outputs are a dict:

    - `sequence_output` `[batch, seq, hidden]`
    - `pooled_output` `[batch, hidden]`: the first token after a dense layer
      with tanh; absent without a pooler. With `sequence_starts`,
      `[batch, sequences, hidden]`
    - `encoder_outputs`: list of `num_hidden_layers * inner_group_num` tensors
      `[batch, seq, hidden]`; the last one is `sequence_output`
    - `attentions`, with `output_attentions`: list of the blocks' attention
      probabilities before dropout, float32 `[batch, heads, from, to]`; 0 from
      and to padding, and between the sequences of a row

    Args:
      config: the architecture.
      packed: whether to remove padding before the blocks and to restore it with
        zeros after them. Faster on CPUs and GPUs if lengths vary; outputs for
        tokens do not change. Requires TensorFlow and dynamic shapes, hence
        neither XLA nor TPUs.
      pooler: whether to have a pooler, which Hugging Face's masked language
        models, token classifiers and question-answering models lack.
      rematerialize: whether to train in less memory, about a third slower: only
        the input of each block is kept, and the backward pass recomputes the
        rest. Results are the same up to rounding.
      output_attentions: whether to output `attentions`. Their memory grows with
        the square of the length, and blocks are not rematerialized.
      embeddings: the embeddings of another encoder, to share them. A `.keras`
        file or a clone cannot have them; `save_pretrained` can. Frozen with one
        encoder (`trainable=False`), they are frozen in both.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `embeddings` have another architecture.

    Example:
      >>> config = AlbertConfig.from_official("albert_tiny")
      >>> encoder = AlbertEncoder(config)
      >>> ids = np.array([[2, 48, 25, 3]])
      >>> outputs = encoder({
      ...     "input_word_ids": ids,
      ...     "input_mask": np.ones_like(ids),
      ...     "input_type_ids": np.zeros_like(ids),
      ... })
      >>> tuple(outputs["pooled_output"].shape)
      (1, 312)
    """

    # First part of the public names of its variables, whatever its own name.
    SCOPE: ClassVar[str] = "encoder"

    def __init__(
        self,
        config: AlbertConfig,
        packed: bool = False,
        pooler: bool = True,
        rematerialize: bool = False,
        output_attentions: bool = False,
        embeddings: Embeddings | None = None,
        **kwargs,
    ):
        super().__init__(config, **{"name": "encoder", **kwargs})
        self.packed = packed
        self.rematerialize = rematerialize
        self.output_attentions = output_attentions
        # On GPUs, `fit` would otherwise use XLA, which cannot compile shapes
        # that depend on the mask.
        self.supports_jit = not packed
        self._shares_embeddings = embeddings is not None
        if embeddings is None:
            embeddings = Embeddings(
                config, name="embeddings", dtype=self.dtype_policy
            )
        else:
            _check_embeddings(embeddings, config)
        self.embeddings = embeddings
        self.embedding_projection = (
            dense(
                config,
                config.hidden_size,
                "embedding_projection",
                self.dtype_policy,
            )
            if config.has_embedding_projection
            else None
        )
        self.stack = SharedStack(
            config, rematerialize, name="transformer", dtype=self.dtype_policy
        )
        self.pooler = (
            dense(
                config, config.hidden_size, "pooler", self.dtype_policy, "tanh"
            )
            if pooler
            else None
        )
        self.build((None, None))
        self.complete()

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape of `sequence_output`; Keras's `summary` shows it."""
        return (None, None, self.config.hidden_size)

    def build(self, input_shape=None):
        """Creates the weights; `input_shape` is not used."""
        if not self.embeddings.built:
            self.embeddings.build((None, None))
        if self.embedding_projection is not None:
            self.embedding_projection.build((None, self.config.embedding_size))
        rows = (None, self.config.hidden_size)
        self.stack.build(rows)
        self.stack.output_shape = rows  # for Keras's `summary`
        if self.pooler is not None:
            self.pooler.build((None, self.config.hidden_size))

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict (see the class)."""
        inputs = sequence_inputs(inputs, ENCODER_INPUTS)
        outputs, layout = self.blocks(
            inputs, training=training, output_attentions=self.output_attentions
        )
        attentions = None
        if self.output_attentions:
            outputs, attentions = outputs
        encoder_outputs = [layout.restore(x) for x in outputs]
        results = {
            "sequence_output": encoder_outputs[-1],
            "encoder_outputs": encoder_outputs,
        }
        if attentions is not None:
            results["attentions"] = [
                layout.restore_attentions(x) for x in attentions
            ]
        if self.pooler is not None:
            starts = first_tokens(inputs)
            pooled = self.pool(layout.take(outputs[-1], starts))
            if "sequence_starts" in inputs:
                pooled = ops.reshape(
                    pooled, (*ops.shape(starts), self.config.hidden_size)
                )
            results["pooled_output"] = pooled
        return results

    def states_at(self, inputs, positions, training=False):
        """Returns the last layer's states at given positions.

        Cheaper than `call`, as the last block computes only these positions.

        Args:
          inputs: the input dict; `sequence_starts` is not used.
          positions: int32 `[batch, picks]`.
          training: whether to apply dropout.

        Returns:
          `[batch, picks, hidden]`.
        """
        inputs = sequence_inputs(inputs, ENCODER_INPUTS)
        outputs, layout = self.blocks(inputs, positions, training=training)
        picks = ops.shape(positions)[1]
        return ops.reshape(
            outputs[-1], (layout.batch, picks, self.config.hidden_size)
        )

    def blocks(
        self, inputs, positions=None, training=False, output_attentions=False
    ):
        """Runs the embeddings and the blocks, without the pooler.

        Args:
          inputs: the input dict under this library's names.
          positions: see `SharedStack.call`.
          training: whether to apply dropout.
          output_attentions: see `SharedStack.call`.

        Returns:
          The output of `SharedStack.call`, and the layout of its rows.
        """
        rows, layout = self.embed(inputs, training)
        outputs = self.stack(
            rows,
            layout=layout,
            positions=positions,
            training=training,
            output_attentions=output_attentions,
        )
        return outputs, layout

    def pooled_output(self, inputs, training=False):
        """Returns the `pooled_output` of `call`, at less cost."""
        inputs = sequence_inputs(inputs, ENCODER_INPUTS)
        states = self.states_at(inputs, first_tokens(inputs), training)
        if "sequence_starts" not in inputs:
            states = states[:, 0]
        return self.pool(states)

    def mean_output(self, inputs, training=False, weights=None):
        """Returns the mean of the last layer over all tokens of a row.

        Args:
          inputs: the input dict; rows of one sequence.
          training: whether to apply dropout.
          weights: weights of the tokens, `[batch, seq]`; None for equal ones.

        Returns:
          float32 `[batch, hidden]`.
        """
        inputs = sequence_inputs(inputs, ENCODER_INPUTS)
        outputs, layout = self.blocks(inputs, training=training)
        states = layout.restore(outputs[-1])
        return mean_pooling(states, inputs["input_mask"], weights)

    def pool(self, first_states):
        """First-token states `[..., hidden]` -> pooled output, same shape."""
        if self.pooler is None:
            raise ValueError(
                f"{self.name} was created with pooler=False, so it has no "
                "pooled output"
            )
        return self.pooler(first_states)

    @property
    def word_embeddings(self):
        """The table `[vocab_size, embedding_size]`, tied to the MLM head."""
        return self.embeddings.word_embeddings

    def embed(self, inputs, training=False):
        """Computes the input of the first block.

        Args:
          inputs: the input dict under this library's names.
          training: whether to apply dropout.

        Returns:
          Rows `[rows, hidden]`, and their layout.
        """
        layout_of = PackedRows if self.packed else PaddedRows
        arrays = {x: as_integers(x, inputs[x]) for x in ENCODER_INPUTS}
        check_shapes(arrays)
        ids, mask, types = arrays.values()
        sequence_ids = None
        if "sequence_ids" in inputs:
            sequence_ids = as_integers("sequence_ids", inputs["sequence_ids"])
        layout = layout_of(mask, sequence_ids)
        rows = layout.to_rows(
            self.embeddings(ids, types, layout.positions, training=training)
        )
        if self.embedding_projection is not None:
            rows = self.embedding_projection(rows)
        return rows, layout

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        return {"pooler": "pooler" in checkpoint.components or new_head}

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor arguments; see `from_config`.

        Raises:
          InputError: if the embeddings are those of another encoder.
        """
        if self._shares_embeddings:
            raise InputError(
                f"the encoder {self.name!r} has the embeddings of another one, "
                "which a config cannot express; use save_pretrained, or save "
                "the weights of the whole model (save_weights)"
            )
        return {
            **super().get_config(),
            "packed": self.packed,
            "pooler": self.pooler is not None,
            "rematerialize": self.rematerialize,
            "output_attentions": self.output_attentions,
        }


def _check_embeddings(embeddings: Embeddings, config: AlbertConfig) -> None:
    theirs = embeddings.config
    for name in (
        "vocab_size",
        "embedding_size",
        "type_vocab_size",
        "max_position_embeddings",
        "layer_norm_eps",
    ):
        ours, value = getattr(config, name), getattr(theirs, name)
        if ours != value:
            raise InputError(
                f"AlbertEncoder: embeddings have {name}={value}, but config "
                f"has {ours}; both must be the same"
            )
