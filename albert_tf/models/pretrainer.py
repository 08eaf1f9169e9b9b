"""The encoder with the two pretraining heads."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.dense import dense
from albert_tf.layers.masked_lm_head import MaskedLMHead
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import (
    ENCODER_INPUTS,
    MASKED_LM_POSITIONS,
    check_inputs,
)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertPretrainer(keras.Model):
    """Masked language model and sentence-order prediction (paper, 3.1).

    Inputs are the encoder's dict and `masked_lm_positions` `[batch, picks]`.

    Outputs are a dict, in float32 whatever the precision:

    - `mlm_logits` `[batch, picks, vocab_size]`
    - `sop_logits` `[batch, 2]`: class 1 means that the segments are swapped
    - `pooled_output` `[batch, hidden]`, in the compute dtype

    Args:
      config: the architecture.
      packed: see `AlbertEncoder`.
      encoder: an encoder to use instead of a new one; `config` must be its own.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.
    """

    INPUTS = (*ENCODER_INPUTS, MASKED_LM_POSITIONS)

    def __init__(
        self,
        config: AlbertConfig,
        packed: bool = False,
        encoder: AlbertEncoder | None = None,
        **kwargs,
    ):
        super().__init__(**{"name": "pretrainer", **kwargs})
        if encoder is None:
            encoder = AlbertEncoder(
                config, packed=packed, dtype=self.dtype_policy
            )
        elif encoder.config != config:
            raise ValueError("encoder was made with another config")
        self.config = config
        self.encoder = encoder
        self.mlm_head = MaskedLMHead(
            config, name="mlm_head", dtype=self.dtype_policy
        )
        # No dropout before it, as in the original. Logits are float32.
        self.sop_head = dense(config, 2, "sop_head", "float32")
        # Outside the scope of `build`: the heads' variables are called
        # mlm_head/... and sop_head/..., as the encoder's are encoder/...
        self.mlm_head.build()
        self.sop_head.build((None, config.hidden_size))
        self.built = True

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict (see the class)."""
        check_inputs(inputs, self.INPUTS)
        positions = ops.cast(inputs[MASKED_LM_POSITIONS], "int32")
        batch, picks = ops.shape(positions)
        # The two heads read the first token and the masked ones, nothing else.
        first = ops.zeros((batch, 1), dtype="int32")
        states = self.encoder.states_at(
            {name: inputs[name] for name in ENCODER_INPUTS},
            ops.concatenate([first, positions], axis=1),
            training=training,
        )
        masked = ops.reshape(states[:, 1:], (-1, self.config.hidden_size))
        pooled = self.encoder.pool(states[:, 0])
        mlm_logits = self.mlm_head(masked, self.encoder.word_embeddings)
        return {
            "mlm_logits": ops.reshape(
                mlm_logits, (batch, picks, self.config.vocab_size)
            ),
            "sop_logits": self.sop_head(pooled),
            "pooled_output": pooled,
        }

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "packed": self.encoder.packed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None):
        """Makes the model that `get_config` described."""
        architecture = AlbertConfig.from_dict(config["config"])
        return cls(**{**config, "config": architecture})
