"""The encoder with the two pretraining heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.core import LayerNorm, activation, dense
from albert_tf.layers.token_rows import take_rows
from albert_tf.models.base import (
    MASKED_LM_POSITIONS,
    AlbertModel,
    with_attentions,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import (
    SEQUENCE_INPUTS,
    first_tokens,
    sequence_inputs,
)
from albert_tf.text.packing import ENCODER_INPUTS

if TYPE_CHECKING:
    from typing import Self  # new in Python 3.11


class MaskedLMHead(keras.layers.Layer):
    """Predicts tokens: dense layer H -> E, LayerNorm, tied projection to V."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config,
            config.embedding_size,
            "dense",
            self.dtype_policy,
            activation(config.hidden_act),
        )
        self.layer_norm = LayerNorm(
            config.layer_norm_eps, name="layer_norm", dtype=self.dtype_policy
        )

    @property
    def output_shape(self) -> tuple[int | None, ...]:
        """Shape for Keras's `summary`."""
        return (None, self.config.vocab_size)

    def build(self, input_shape=None):
        """Creates the weights; the output matrix is the embedding table."""
        self.dense.build((None, self.config.hidden_size))
        self.layer_norm.build((None, self.config.embedding_size))
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,),
            initializer="zeros",
            name="output_bias",
            autocast=False,
        )

    def call(self, rows, word_embeddings):
        """Computes float32 logits `[rows, V]`.

        Args:
          rows: `[rows, hidden]`.
          word_embeddings: the table `[V, E]`.
        """
        x = self.layer_norm(self.dense(rows))
        x, table, bias = (
            ops.cast(value, "float32")
            for value in (x, word_embeddings, self.output_bias)
        )
        return ops.add(ops.matmul(x, ops.transpose(table)), bias)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(AlbertModel):
    """Masked language model and sentence-order prediction (paper, 3.1).

    Inputs are the encoder's dict and `masked_lm_positions` `[batch, picks]`.
    Positions count from the start of the row, even if it has several sequences
    (`sequence_ids` and `sequence_starts`; see `AlbertEncoder`).

    Outputs are a dict; logits are float32 in any precision:

    - `mlm_logits` `[batch, picks, vocab_size]`
    - `sop_logits` `[batch, 2]`: class 1 means that the segments are swapped;
      absent without `sop_head`
    - `pooled_output` `[batch, hidden]`, in the compute dtype; absent without
      `pooler`
    - `attentions`, with `output_attentions`: those of `AlbertEncoder`

    With `sequence_starts`, `sop_logits` and `pooled_output` are
    `[batch, sequences, ...]`; values for sequences that a row does not have are
    undefined.

    Args:
      config: the architecture.
      packed: see `AlbertEncoder`.
      sop_head: whether to have a sentence-order head. Google's TF-Hub modules
        and most masked language models have none.
      pooler: whether the encoder has a pooler, which `sop_head` requires.
      encoder: an encoder to use instead of a new one. `config` and `pooler`
        must match it; `packed`, `rematerialize` and `output_attentions` are
        ignored.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The last block then computes all
        positions, not only those that the heads read.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if arguments contradict each other.
    """

    INPUTS = (*ENCODER_INPUTS, MASKED_LM_POSITIONS)

    def __init__(
        self,
        config: AlbertConfig,
        packed: bool = False,
        sop_head: bool = True,
        pooler: bool = True,
        encoder: AlbertEncoder | None = None,
        rematerialize: bool = False,
        output_attentions: bool = False,
        **kwargs,
    ):
        if sop_head and not pooler:
            raise InputError(
                "AlbertPretrainer: pooler=False must go with sop_head=False, "
                "since the sentence-order head reads the pooled output"
            )
        super().__init__(config, **{"name": "pretrainer", **kwargs})
        if encoder is None:
            encoder = AlbertEncoder(
                config,
                packed,
                pooler,
                rematerialize,
                output_attentions,
                dtype=self.dtype_policy,
            )
        else:
            _check_encoder(encoder, config, pooler)
        self.encoder = encoder
        self.mlm_head = MaskedLMHead(
            config, name="mlm_head", dtype=self.dtype_policy
        )
        # No dropout before the head, as in the original. Logits are float32.
        self.sop_head = (
            dense(config, 2, "sop_head", "float32") if sop_head else None
        )
        # Not in `build`, whose scope would be part of the variables' paths.
        self.mlm_head.build((None, config.hidden_size))
        if self.sop_head is not None:
            self.sop_head.build((None, config.hidden_size))
        self.complete()

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict (see the class)."""
        inputs = sequence_inputs(inputs, self.INPUTS)
        positions = ops.cast(inputs[MASKED_LM_POSITIONS], "int32")
        batch, picks = ops.shape(positions)
        # The heads read only the first tokens and the masked positions.
        first = first_tokens(inputs)
        sequences = ops.shape(first)[1]
        read = ops.concatenate([first, positions], axis=1)
        inputs = {
            name: inputs[name]
            for name in (*ENCODER_INPUTS, *SEQUENCE_INPUTS)
            if name in inputs
        }
        attentions = None
        if self.encoder.output_attentions:
            encoded = self.encoder(inputs, training=training)
            states = take_rows(encoded["sequence_output"], read, batch_dims=1)
            attentions = encoded["attentions"]
        else:
            states = self.encoder.states_at(inputs, read, training=training)
        masked = ops.reshape(
            states[:, sequences:], (-1, self.config.hidden_size)
        )
        mlm_logits = self.mlm_head(masked, self.encoder.word_embeddings)
        outputs = {
            "mlm_logits": ops.reshape(
                mlm_logits, (batch, picks, self.config.vocab_size)
            )
        }
        if self.encoder.pooler is not None:
            several = "sequence_starts" in inputs
            outputs["pooled_output"] = self.encoder.pool(
                states[:, :sequences] if several else states[:, 0]
            )
        if self.sop_head is not None:
            outputs["sop_logits"] = self.sop_head(outputs["pooled_output"])
        return with_attentions(outputs, attentions)

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        sop_head = given.get("sop_head", True)
        return {"pooler": sop_head or "pooler" in checkpoint.components}

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        config = {
            **super().get_config(),
            "packed": self.encoder.packed,
            "sop_head": self.sop_head is not None,
            "pooler": self.encoder.pooler is not None,
            "rematerialize": self.encoder.rematerialize,
            "output_attentions": self.encoder.output_attentions,
        }
        policy = self.encoder.dtype_policy
        # That of a given encoder. Subclasses may make one of their own.
        if _takes_encoder(type(self)) and policy != self.dtype_policy:
            config["encoder_dtype"] = keras.dtype_policies.serialize(policy)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> Self:
        """Creates a model from the output of `get_config`."""
        config = dict(config)
        policy = config.pop("encoder_dtype", None)
        if policy is not None:
            config["encoder"] = AlbertEncoder(
                AlbertConfig.from_dict(config["config"]),
                config["packed"],
                config["pooler"],
                config["rematerialize"],
                config["output_attentions"],
                dtype=policy,
            )
        return super().from_config(config, custom_objects)


def _takes_encoder(model_class: type[AlbertPretrainer]) -> bool:
    return model_class.__init__ is AlbertPretrainer.__init__


def _check_encoder(encoder: AlbertEncoder, config, pooler: bool) -> None:
    if encoder.config != config:
        raise InputError("AlbertPretrainer: encoder has another config")
    if (encoder.pooler is not None) != pooler:
        raise InputError(
            f"AlbertPretrainer: pooler={pooler}, but encoder was created with "
            f"pooler={not pooler}"
        )
