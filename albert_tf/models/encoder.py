"""The ALBERT encoder."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.dense import dense
from albert_tf.layers.embeddings import Embeddings
from albert_tf.layers.shared_stack import SharedStack
from albert_tf.layers.token_rows import PackedRows, PaddedRows
from albert_tf.models.base import ENCODER_INPUTS, AlbertModel, named_inputs


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(AlbertModel):
    """Factorized embeddings, a stack of shared blocks, and a pooler.

    Inputs are a dict of integer tensors `[batch, seq]`: `input_word_ids`,
    `input_mask` (1 = token, 0 = padding) and `input_type_ids` (segment); or,
    as every model takes them, under Hugging Face's names `input_ids`,
    `attention_mask` and `token_type_ids`.

    Outputs are a dict:

    - `sequence_output` `[batch, seq, hidden]`
    - `pooled_output` `[batch, hidden]`: tanh dense of the first token; absent
      without pooler
    - `encoder_outputs`: list of `num_hidden_layers * inner_group_num` tensors
      `[batch, seq, hidden]`; the last one is `sequence_output`

    Args:
      config: the architecture.
      packed: remove padding before the blocks and put zeros there at the end.
        Faster on CPUs and GPUs where lengths vary; same numbers on real tokens.
        Needs TensorFlow and dynamic shapes, so not for XLA or TPUs.
      pooler: whether there is a pooler. Checkpoints of Hugging Face's masked
        language models, token classifiers and span labelers have none.
      rematerialize: train in less memory, about a third slower: of each block
        only the input is kept, and the backward pass runs it once more. The
        numbers stay the same up to rounding; nothing else changes.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

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

    def __init__(
        self,
        config: AlbertConfig,
        packed: bool = False,
        pooler: bool = True,
        rematerialize: bool = False,
        **kwargs,
    ):
        super().__init__(config, **{"name": "encoder", **kwargs})
        self.packed = packed
        self.rematerialize = rematerialize
        # On GPUs, `fit` would otherwise compile with XLA: shapes that depend on
        # the mask cannot be.
        self.supports_jit = not packed
        self.embeddings = Embeddings(
            config, name="embeddings", dtype=self.dtype_policy
        )
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
            config,
            rematerialize,
            name="transformer",
            dtype=self.dtype_policy,
        )
        self.pooler = (
            dense(
                config, config.hidden_size, "pooler", self.dtype_policy, "tanh"
            )
            if pooler
            else None
        )
        self.build()

    def build(self, input_shape=None):
        """Makes all weights; sizes come from the config."""
        self.embeddings.build()
        if self.embedding_projection is not None:
            self.embedding_projection.build((None, self.config.embedding_size))
        self.stack.build()
        if self.pooler is not None:
            self.pooler.build((None, self.config.hidden_size))
        self.built = True

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict (see the class)."""
        rows, layout = self._embed(inputs, training)
        outputs = self.stack(rows, layout=layout, training=training)
        encoder_outputs = [layout.restore(x) for x in outputs]
        results = {
            "sequence_output": encoder_outputs[-1],
            "encoder_outputs": encoder_outputs,
        }
        if self.pooler is not None:
            first = ops.zeros((layout.batch, 1), dtype="int32")
            results["pooled_output"] = self.pool(
                layout.take(outputs[-1], first)
            )
        return results

    def states_at(self, inputs, positions, training=False):
        """Returns the last layer's states at some positions only.

        What a head needs, for less: the last block computes nothing else.

        Args:
          inputs: the input dict.
          positions: int32 `[batch, picks]`.
          training: whether dropout is on.

        Returns:
          `[batch, picks, hidden]`.
        """
        rows, layout = self._embed(inputs, training)
        states = self.stack(
            rows, layout=layout, positions=positions, training=training
        )[-1]
        picks = ops.shape(positions)[1]
        return ops.reshape(
            states, (layout.batch, picks, self.config.hidden_size)
        )

    def pooled_output(self, inputs, training=False):
        """Returns the `pooled_output` of `call` `[batch, hidden]`, for less."""
        inputs = named_inputs(inputs, ENCODER_INPUTS)
        batch = ops.shape(inputs["input_mask"])[0]
        first = ops.zeros((batch, 1), dtype="int32")
        return self.pool(self.states_at(inputs, first, training)[:, 0])

    def pool(self, first_states):
        """First-token states `[batch, hidden]` -> pooled output, same shape."""
        if self.pooler is None:
            raise ValueError(
                f"{self.name} was made with pooler=False, so it has no pooled "
                "output"
            )
        return self.pooler(first_states)

    @property
    def word_embeddings(self):
        """The table `[vocab_size, embedding_size]`, which the MLM head ties."""
        return self.embeddings.word_embeddings

    def _embed(self, inputs, training):
        inputs = named_inputs(inputs, ENCODER_INPUTS)
        layout_of = PackedRows if self.packed else PaddedRows
        ids, mask, types = (
            _as_integers(name, inputs[name]) for name in ENCODER_INPUTS
        )
        layout = layout_of(mask)
        rows = layout.to_rows(self.embeddings(ids, types, training=training))
        if self.embedding_projection is not None:
            rows = self.embedding_projection(rows)
        return rows, layout

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        return {"pooler": "pooler" in checkpoint.components or new_head}

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {
            **super().get_config(),
            "packed": self.packed,
            "pooler": self.pooler is not None,
            "rematerialize": self.rematerialize,
        }


def _as_integers(name: str, values):
    """Returns an input as an integer tensor.

    Keras traces a subclassed model that is exported with float32 inputs, so
    these are converted, as `keras.layers.Embedding` does.

    Raises:
      ValueError: the values are of a type that rounds ids.
    """
    values = ops.convert_to_tensor(values)
    dtype = keras.backend.standardize_dtype(values.dtype)
    if dtype in ("float16", "bfloat16"):
        raise ValueError(
            f"{name} is {dtype}, which cannot represent every id; give int32"
        )
    return ops.cast(values, "int32") if dtype.startswith("float") else values
