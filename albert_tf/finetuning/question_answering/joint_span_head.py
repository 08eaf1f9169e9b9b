"""The original's head for SQuAD 2.0."""

from __future__ import annotations

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.layers.core import LayerNorm, add_bias, dense
from albert_tf.layers.dropout import Dropout

# Score of positions that cannot be answers, as in the original.
_MASKED_SCORE = -1e30


class JointSpanHead(keras.layers.Layer):
    """Predicts the start, the end given the start, and answerability.

    It is the original's head for SQuAD 2.0, after XLNet. For the arguments and
    the output dict see `AlbertQuestionAnswering`.
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
