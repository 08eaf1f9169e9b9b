"""Model and losses for question answering."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.finetuning.losses import BatchLoss
from albert_tf.finetuning.question_answering.features import (
    END_POSITIONS,
    IS_IMPOSSIBLE,
    P_MASK,
    START_POSITIONS,
)
from albert_tf.finetuning.question_answering.joint_span_head import (
    JointSpanHead,
)
from albert_tf.finetuning.question_answering.settings import SQUAD_1, SQUAD_2
from albert_tf.finetuning.question_answering.string_windows import (
    window_arrays,
    window_dataset,
)
from albert_tf.finetuning.task_model import TaskModel, read_task
from albert_tf.layers.core import dense
from albert_tf.models.arguments import check_dropout, check_positive
from albert_tf.models.base import with_attentions
from albert_tf.models.inputs import named_inputs
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.training.loss import sparse_cross_entropy

HEADS = ("v1", "joint")


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertQuestionAnswering(TaskModel):
    """ALBERT with one of the original's two heads for question answering.

    `head="v1"` (SQuAD 1.1) is a dense layer. Inputs are the encoder's dict.
    Outputs are `start_logits` and `end_logits` `[batch, seq]`. As in the
    original, there is no dropout before the layer, and question and padding are
    not masked.

    `head="joint"` (SQuAD 2.0, after XLNet) predicts the end given the start,
    and whether there is an answer. Inputs are the encoder's dict, `p_mask`
    `[batch, seq]` (0 in the context and at `[CLS]`, else 1), and for training
    `start_positions` `[batch]`, the true starts. With K = `start_n_top` and
    M = `end_n_top`, the outputs are

    - `start_log_probs` `[batch, seq]`
    - `start_top_log_probs`, `start_top_index` `[batch, K]`: the best starts
    - `end_log_probs` `[batch, K, seq]`: for each of the best starts
    - `end_top_log_probs`, `end_top_index` `[batch, K * M]`: the best ends for
      the first start, the second start, and so on
    - `is_impossible_logits` `[batch]`: logits of there being no answer

    or with `start_positions` only `start_log_probs`, `end_log_probs`
    `[batch, seq]` and `is_impossible_logits`. Log-probabilities are -1e30 where
    `p_mask` is 1.

    `fit`, `evaluate` and `predict` also take strings, see `TaskModel`: a tuple
    of questions and contexts. There is a row for each window of a context.
    `fit` takes `(answers, starts)`, texts and their first characters in the
    contexts; an empty answer stands for a question without one. Losses belong
    to the outputs:

        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", {"start_logits": loss, "end_logits": loss})
        model.fit((["Who?"], ["It was Anna."]), (["Anna"], [7]))

    Where XLA compiles steps (JAX, GPUs), batches of datasets are padded to
    multiples of 32; losses of the head "v1" include padding.

    Outputs other than indices are float32 in any precision. The encoder has no
    pooler.

    Args:
      config: The architecture.
      head: "v1" or "joint".
      dropout: Dropout rate before the last answerability layer; joint head
        only.
      start_n_top: K, at most the sequence length; joint head only.
      end_n_top: M, at most the sequence length; joint head only.
      packed: See `AlbertEncoder`. The v1 logits of padding are then those of
        zero states.
      rematerialize: See `AlbertEncoder`.
      output_attentions: See `AlbertEncoder`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `head`, `dropout`, `start_n_top` or `end_n_top` is invalid.
    """

    TASK_TYPES = ("question_answering",)
    TASK = SQUAD_1
    TOKEN_OUTPUTS = True
    NUM_TEXTS = (2,)
    LENGTHS = ("doc_stride", "max_query_length")
    HEAD_ARGUMENTS: ClassVar = {"head": " or ".join(map(repr, HEADS))}

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
        output_attentions: bool = False,
        **kwargs,
    ):
        if head not in HEADS:
            raise InputError(
                f"AlbertQuestionAnswering: head={head!r} must be one of "
                f"{', '.join(HEADS)}"
            )
        dropout = check_dropout("AlbertQuestionAnswering", dropout)
        check_positive("AlbertQuestionAnswering", "start_n_top", start_n_top)
        check_positive("AlbertQuestionAnswering", "end_n_top", end_n_top)
        super().__init__(config, **{"name": "span_labeler", **kwargs})
        self.head = head
        if head == "joint":
            self.TASK = SQUAD_2
            self.INPUTS = (*ENCODER_INPUTS, P_MASK)
        self.head_dropout = dropout
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self._add_encoder(
            packed=packed,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
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
        self.complete()

    def call(self, inputs, training=False):
        """Maps the input dict to the output dict."""
        optional = (START_POSITIONS,) if self.head == "joint" else ()
        inputs = named_inputs(inputs, self.INPUTS, optional)
        encoded = self.encoder(
            {name: inputs[name] for name in ENCODER_INPUTS}, training=training
        )
        states = encoded["sequence_output"]
        if self.head == "v1":
            logits = self.span_head(states)
            outputs = {
                "start_logits": logits[..., 0],
                "end_logits": logits[..., 1],
            }
        else:
            outputs = self.joint_span_head(
                states,
                inputs[P_MASK],
                inputs.get(START_POSITIONS),
                training=training,
            )
        return with_attentions(outputs, encoded.get("attentions"))

    def _default_settings(self):
        settings = self.TASK.settings
        # As in the original: 128 and 64 for a length of 384.
        length = self.max_seq_length
        return {
            **settings,
            "doc_stride": min(settings["doc_stride"], max(1, length // 3)),
            "max_query_length": min(
                settings["max_query_length"], max(1, length // 6)
            ),
            "start_n_top": self.start_n_top,
            "end_n_top": self.end_n_top,
        }

    def _sequences(self, preprocessor, texts, y, sample_weight, multiple=1):
        return window_arrays(
            preprocessor.tokenizer,
            self._settings,
            texts,
            y,
            sample_weight,
            multiple=multiple,
        )

    def _dataset(self, tokenizer, data, multiple):
        return window_dataset(tokenizer, self._settings, data, multiple)

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        heads = {"span_head": "v1", "joint_span_head": "joint"}
        found = [
            kind
            for part, kind in heads.items()
            if part in checkpoint.components
        ]
        if new_head or len(found) != 1:
            return {}
        arguments = {"head": found[0], "dropout": checkpoint.head.dropout}
        task = read_task(checkpoint)
        if found[0] == "joint" and task and task.task_type in cls.TASK_TYPES:
            for name in ("start_n_top", "end_n_top"):
                arguments[name] = task.settings[name]
        return arguments

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            "head": self.head,
            "dropout": self.head_dropout,
            "start_n_top": self.start_n_top,
            "end_n_top": self.end_n_top,
        }


# Logit of padding: its probability is 0 in float32.
_NO_LOGIT = -1e30


class SpanLoss(BatchLoss):
    """Mean cross-entropy of start and end positions, for head "v1".

    The batch has the encoder's inputs, and `start_positions` and
    `end_positions`, int32 `[batch]`; both are 0 in windows without an answer.

    The original's softmax includes the padding up to 384 tokens. Here padding
    is masked, so that the loss does not depend on the amount of padding.
    """

    def count(self, batch):
        """Returns the number of windows with an answer.

        Most windows have none, which is soon learned, and says little.
        """
        return tf.reduce_sum(self._has_answer(batch))

    def _has_answer(self, batch):
        return tf.cast(batch[START_POSITIONS] > 0, tf.float32)

    def sums(self, batch, outputs):
        """Returns the loss, and the number of answers found exactly."""
        is_token = tf.cast(batch["input_mask"], tf.bool)
        (start_nll, start_hits), (end_nll, end_hits) = (
            sparse_cross_entropy(
                batch[positions], tf.where(is_token, outputs[name], _NO_LOGIT)
            )
            for positions, name in (
                (START_POSITIONS, "start_logits"),
                (END_POSITIONS, "end_logits"),
            )
        )
        exact = start_hits * end_hits * self._has_answer(batch)
        return tf.reduce_sum(start_nll + end_nll) / 2, {
            "exact_spans": tf.reduce_sum(exact)
        }


class JointSpanLoss(BatchLoss):
    """The original's loss for SQuAD 2.0, for head "joint".

    Half the sum of three means: the negative log-likelihood of the start, that
    of the end given the true start, and the sigmoid cross-entropy of
    `is_impossible`. The batch has the inputs of `SpanLoss`, `p_mask`
    `[batch, seq]`, and `is_impossible`, 0 or 1, `[batch]`.
    """

    INPUTS = (*ENCODER_INPUTS, P_MASK, START_POSITIONS)

    def sums(self, batch, outputs):
        """Returns the loss, and its three terms."""
        impossible = tf.cast(batch[IS_IMPOSSIBLE], tf.float32)
        losses = {
            "start_loss": -tf.gather(
                outputs["start_log_probs"], batch[START_POSITIONS], batch_dims=1
            ),
            "end_loss": -tf.gather(
                outputs["end_log_probs"], batch[END_POSITIONS], batch_dims=1
            ),
            "answerable_loss": tf.nn.sigmoid_cross_entropy_with_logits(
                impossible, outputs["is_impossible_logits"]
            ),
        }
        sums = {name: tf.reduce_sum(x) for name, x in losses.items()}
        return 0.5 * sum(sums.values()), sums
