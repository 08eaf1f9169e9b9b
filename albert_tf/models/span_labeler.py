"""Where in a text the answer to a question starts and ends: SQuAD."""

from __future__ import annotations

from typing import Any

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.dense import dense
from albert_tf.layers.joint_span_head import JointSpanHead
from albert_tf.models.arguments import check_dropout, check_positive
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import (
    ENCODER_INPUTS,
    P_MASK,
    START_POSITIONS,
    check_inputs,
)

HEADS = ("v1", "joint")


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertSpanLabeler(AlbertModel):
    """Scores starts and ends of an answer, in one of the original's two ways.

    `head="v1"` (SQuAD 1.1): one dense layer. Inputs are the encoder's dict.
    Outputs are `start_logits` and `end_logits` `[batch, seq]`; as in the
    original, there is no dropout before them, and question and padding are not
    masked.

    `head="joint"` (SQuAD 2.0, after XLNet): the end given the start, and
    whether there is an answer at all. Inputs are the encoder's dict and
    `p_mask` `[batch, seq]` (1 = no answer can start or end here; 0 = text and
    `[CLS]`), and for training `start_positions` `[batch]`, the true starts.
    With K = `start_n_top` and M = `end_n_top` the outputs are

    - `start_log_probs` `[batch, seq]`
    - `start_top_log_probs`, `start_top_index` `[batch, K]`: the best starts
    - `end_log_probs` `[batch, K, seq]`: given each of them
    - `end_top_log_probs`, `end_top_index` `[batch, K * M]`: the best ends of
      the first start, of the second, and so on
    - `is_impossible_logits` `[batch]`: the higher, the less likely an answer

    and with `start_positions` only `start_log_probs`, `end_log_probs`
    `[batch, seq]` and `is_impossible_logits`. Log-probabilities are -1e30 where
    `p_mask` is 1.

    All but the indices are float32 whatever the precision. The encoder has no
    pooler.

    Args:
      config: the architecture.
      head: "v1" or "joint".
      dropout: before the last layer of the joint head's answerability.
      start_n_top: K, at most the length of the sequences; joint head only.
      end_n_top: M, likewise.
      packed: see `AlbertEncoder`. The v1 logits of padding are then those of
        zero states.
      rematerialize: see `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: a bad `head`, `dropout`, `start_n_top` or `end_n_top`.
    """

    HEAD_ARGUMENTS = ("head",)

    def __init__(
        self,
        config: AlbertConfig,
        head: str,
        *,
        dropout: float = 0.1,
        start_n_top: int = 5,
        end_n_top: int = 5,
        packed: bool = False,
        rematerialize: bool = False,
        **kwargs,
    ):
        if head not in HEADS:
            raise InputError(
                f"AlbertSpanLabeler: head={head!r} must be one of "
                f"{', '.join(HEADS)}"
            )
        dropout = check_dropout("AlbertSpanLabeler", dropout)
        check_positive("AlbertSpanLabeler", "start_n_top", start_n_top)
        check_positive("AlbertSpanLabeler", "end_n_top", end_n_top)
        super().__init__(config, **{"name": "span_labeler", **kwargs})
        self.head = head
        self.head_dropout = dropout
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.encoder = AlbertEncoder(
            config,
            packed,
            pooler=False,
            rematerialize=rematerialize,
            dtype=self.dtype_policy,
        )
        if head == "v1":
            self.span_head = dense(config, 2, "span_head", "float32")
            self.span_head.build((None, config.hidden_size))
        else:
            self.joint_span_head = JointSpanHead(
                config,
                start_n_top,
                end_n_top,
                dropout,
                name="joint_span_head",
                dtype=self.dtype_policy,
            )
            self.joint_span_head.build()
        self.built = True

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict (see the class)."""
        if self.head == "v1":
            check_inputs(inputs, ENCODER_INPUTS)
        else:
            check_inputs(inputs, (*ENCODER_INPUTS, P_MASK), (START_POSITIONS,))
        states = self.encoder(
            {name: inputs[name] for name in ENCODER_INPUTS}, training=training
        )["sequence_output"]
        if self.head == "v1":
            logits = self.span_head(states)
            return {
                "start_logits": logits[..., 0],
                "end_logits": logits[..., 1],
            }
        return self.joint_span_head(
            states,
            inputs[P_MASK],
            inputs.get(START_POSITIONS),
            training=training,
        )

    @classmethod
    def _arguments_of(cls, checkpoint, new_head, given):
        heads = {"span_head": "v1", "joint_span_head": "joint"}
        found = [
            kind for part, kind in heads.items() if part in checkpoint.parts
        ]
        if new_head or len(found) != 1:
            return {}
        return {"head": found[0], "dropout": checkpoint.head.dropout}

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {
            **super().get_config(),
            "head": self.head,
            "dropout": self.head_dropout,
            "start_n_top": self.start_n_top,
            "end_n_top": self.end_n_top,
            "packed": self.encoder.packed,
            "rematerialize": self.encoder.rematerialize,
        }
