"""Model and losses for question answering, with the head for SQuAD 2.0."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.finetuning.losses import BatchLoss
from albert_tf.finetuning.question_answering.features import (
    END_POSITIONS,
    IS_IMPOSSIBLE,
    P_MASK,
    SQUAD_1,
    SQUAD_2,
    START_POSITIONS,
)
from albert_tf.finetuning.question_answering.string_windows import (
    window_arrays,
    window_dataset,
)
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.layers.core import LayerNorm, add_bias, dense
from albert_tf.layers.dropout import Dropout
from albert_tf.models.base import (
    check_dropout,
    check_positive,
    with_attentions,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS, named_inputs
from albert_tf.training.loss import sparse_cross_entropy

HEADS = ("v1", "joint")

# Score of positions that cannot be answers, as in the original.
_MASKED_SCORE = -1e30


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
      InputError: If `head`, `dropout`, `start_n_top` or `end_n_top` is invalid.
    """

    TASK_TYPES = ("question_answering",)
    TASK = SQUAD_1
    NUM_TEXTS = (2,)
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
        self.encoder = AlbertEncoder(
            config,
            packed,
            pooler=False,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
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
            "max_query_length": min(settings["max_query_length"], length // 6),
            "start_n_top": self.start_n_top,
            "end_n_top": self.end_n_top,
        }

    def _sequences(self, preprocessor, texts, y, sample_weight):
        return window_arrays(
            preprocessor.tokenizer, self._settings, texts, y, sample_weight
        )

    def _dataset(self, tokenizer, data):
        return window_dataset(tokenizer, self._settings, data)

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
        return {"head": found[0], "dropout": checkpoint.head.dropout}

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            "head": self.head,
            "dropout": self.head_dropout,
            "start_n_top": self.start_n_top,
            "end_n_top": self.end_n_top,
            "packed": self.encoder.packed,
            "rematerialize": self.encoder.rematerialize,
            "output_attentions": self.encoder.output_attentions,
        }


class JointSpanHead(keras.layers.Layer):
    """The original's head for SQuAD 2.0, after XLNet.

    Predicts the start, the end given the start, and whether there is an answer.

    Args:
      config: The architecture.
      start_n_top: K, the number of predicted starts.
      end_n_top: M, the number of predicted ends for each start.
      dropout: Dropout rate before the last answerability layer.
      **kwargs: `name` and `dtype` of `keras.layers.Layer`.
    """

    def __init__(
        self,
        config: AlbertConfig,
        start_n_top: int,
        end_n_top: int,
        dropout: float,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = config
        self.start_n_top = start_n_top
        self.end_n_top = end_n_top
        self.start = dense(config, 1, "start", "float32")
        self.end = _EndScores(config, name="end", dtype=self.dtype_policy)
        self.answerability = _Answerability(
            config, dropout, name="answerability", dtype=self.dtype_policy
        )

    def build(self, input_shape=None):
        """Creates the weights, whose sizes depend on the config only."""
        self.start.build((None, self.config.hidden_size))
        self.end.build()
        self.answerability.build()

    def call(self, states, p_mask, start_positions=None, training=False):
        """Applies the head.

        Args:
          states: `[batch, seq, hidden]`; the first token is `[CLS]`.
          p_mask: `[batch, seq]`, 1 at positions that cannot be answers.
          start_positions: true starts `[batch]`, or None to predict them.
          training: whether to apply dropout.

        Returns:
          The output dict of `AlbertQuestionAnswering`.
        """
        p_mask = ops.cast(p_mask, "bool")
        start_scores = ops.squeeze(self.start(states), -1)
        start_log_probs = _log_softmax(start_scores, p_mask)
        outputs = {
            "start_log_probs": start_log_probs,
            "is_impossible_logits": self.answerability(
                states, ops.exp(start_log_probs), training=training
            ),
        }
        if start_positions is not None:
            start_positions = ops.convert_to_tensor(start_positions)
            end_log_probs = self._end(states, start_positions[:, None], p_mask)
            return {**outputs, "end_log_probs": end_log_probs[:, 0]}
        self._check_length(ops.shape(states)[1])
        start_top, start_index = ops.top_k(start_log_probs, self.start_n_top)
        end_log_probs = self._end(states, start_index, p_mask)
        end_top, end_index = ops.top_k(end_log_probs, self.end_n_top)
        flat = (-1, self.start_n_top * self.end_n_top)
        return {
            **outputs,
            "start_top_log_probs": start_top,
            "start_top_index": ops.cast(start_index, "int32"),
            "end_log_probs": end_log_probs,
            "end_top_log_probs": ops.reshape(end_top, flat),
            "end_top_index": ops.reshape(ops.cast(end_index, "int32"), flat),
        }

    def _end(self, states, starts, p_mask):
        """Returns log-probabilities of ends `[batch, K, seq]`."""
        start_states = ops.take_along_axis(
            states, ops.cast(starts, "int32")[:, :, None], axis=1
        )
        return _log_softmax(self.end(states, start_states), p_mask[:, None])

    def _check_length(self, length) -> None:
        for name in ("start_n_top", "end_n_top"):
            wanted = getattr(self, name)
            if isinstance(length, int) and length < wanted:
                raise ValueError(
                    f"input_word_ids has length {length}, but must have at "
                    f"least {name}={wanted} positions; pad the inputs"
                )


class _EndScores(keras.layers.Layer):
    """Scores of ends given starts: dense 2H -> H, LayerNorm, dense H -> 1."""

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config, config.hidden_size, "dense", self.dtype_policy
        )
        self.layer_norm = LayerNorm(
            config.layer_norm_eps, name="layer_norm", dtype=self.dtype_policy
        )
        self.output_dense = dense(config, 1, "output", "float32")

    def build(self, input_shape=None):
        """Creates the weights, whose sizes depend on the config only."""
        hidden = self.config.hidden_size
        self.dense.build((None, 2 * hidden))
        self.layer_norm.build((None, hidden))
        self.output_dense.build((None, hidden))

    def call(self, states, start_states):
        """Maps `[batch, seq, H]` and `[batch, K, H]` to `[batch, K, seq]`."""
        hidden = self.config.hidden_size
        batch, length = ops.shape(states)[:2]
        picks = ops.shape(start_states)[1]
        # The product with concat(state, start state) is the sum of two
        # products that are not repeated for each pair.
        kernel = ops.convert_to_tensor(self.dense.kernel)
        of_end = ops.matmul(ops.reshape(states, (-1, hidden)), kernel[:hidden])
        of_start = ops.matmul(
            ops.reshape(start_states, (-1, hidden)), kernel[hidden:]
        )
        x = ops.reshape(of_end, (batch, 1, length, hidden))
        x = x + ops.reshape(of_start, (batch, picks, 1, hidden))
        x = self.layer_norm(ops.tanh(add_bias(x, self.dense.bias)))
        # As a matrix: Keras 3.12's product of four axes with a matrix is wrong
        # on CPUs and writes out of bounds.
        scores = self.output_dense(ops.reshape(x, (-1, hidden)))
        return ops.reshape(scores, (batch, picks, length))


class _Answerability(keras.layers.Layer):
    """Logit of no answer, from the expected start state and `[CLS]`."""

    def __init__(self, config: AlbertConfig, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.dense = dense(
            config, config.hidden_size, "dense", self.dtype_policy, "tanh"
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.output_dense = dense(
            config, 1, "output", "float32", use_bias=False
        )

    def build(self, input_shape=None):
        """Creates the weights, whose sizes depend on the config only."""
        self.dense.build((None, 2 * self.config.hidden_size))
        self.output_dense.build((None, self.config.hidden_size))

    def call(self, states, start_probs, training=False):
        """Maps states and start probabilities to logits `[batch]`."""
        probs = ops.cast(start_probs, self.compute_dtype)
        expected = ops.matmul(probs[:, None], states)[:, 0]
        x = ops.concatenate([expected, states[:, 0]], axis=-1)
        x = self.dropout(self.dense(x), training=training)
        return ops.squeeze(self.output_dense(x), -1)


def _log_softmax(scores, p_mask):
    """Returns log-probabilities over the last axis; -1e30 where masked."""
    scores = ops.where(p_mask, _MASKED_SCORE, scores)
    return ops.log_softmax(scores, axis=-1)


# Logit of padding: its probability is 0 in float32.
_NO_LOGIT = -1e30


class _WindowLoss(BatchLoss):
    """A mean over the windows of a batch."""

    def weight(self, batch):
        """Returns the number of windows."""
        return tf.cast(tf.shape(batch["input_mask"])[0], tf.float32)


class SpanLoss(_WindowLoss):
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


class JointSpanLoss(_WindowLoss):
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
