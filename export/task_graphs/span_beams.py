"""Which spans of rows a span labeler holds for the likeliest, as a graph."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.endpoint import Tensors
from albert_tf.export.model_graph import ModelGraph
from albert_tf.models.inputs import P_MASK

START_PLACES = "start_places"
START_SCORES = "start_scores"
END_PLACES = "end_places"
END_SCORES = "end_scores"
NULL_SCORES = "null_scores"


class SpanBeams:
    """Runs a span labeler on rows; gives spans, places counted in the row.

    Outputs, for S spans of each row:

    - `START_PLACES`, `END_PLACES`, int32 `[rows, S]`
    - `START_SCORES`, `END_SCORES`, float32 `[rows, S]`: logits of the v1 head,
      log-probabilities of the joint one
    - `NULL_SCORES`, float32 `[rows]`, of the joint head alone

    All pairs of the best starts and ends are among them, also those that cannot
    be answers; in the order of `spans_of_logits` and `spans_of_beams`.

    Attributes:
      width: places that a row needs at least.
      specs: shapes and types of the outputs.

    Args:
      graph: of an `AlbertSpanLabeler`.
      head: of it.
      start_beams: the best starts of a row.
      end_beams: the best ends, of each start for the joint head.
    """

    def __init__(
        self, graph: ModelGraph, head: str, start_beams: int, end_beams: int
    ):
        self._graph = graph
        self._head = head
        self._start_beams = start_beams
        self._end_beams = end_beams
        self.width = max(start_beams, end_beams)
        shape = [None, start_beams * end_beams]
        self.specs = {
            START_PLACES: tf.TensorSpec(shape, tf.int32),
            START_SCORES: tf.TensorSpec(shape, tf.float32),
            END_PLACES: tf.TensorSpec(shape, tf.int32),
            END_SCORES: tf.TensorSpec(shape, tf.float32),
        }
        if head == "joint":
            self.specs[NULL_SCORES] = tf.TensorSpec([None], tf.float32)

    def __call__(self, rows: Tensors, training: bool) -> Tensors:
        """Returns the outputs.

        Args:
          rows: packed `[CLS] question [SEP] context [SEP]`, at least `width`
            long.
          training: whether dropout is on.
        """
        if self._head == "v1":
            return self._of_logits(rows, training)
        return self._of_joint_head(rows, training)

    def _of_logits(self, rows: Tensors, training: bool) -> Tensors:
        logits = self._graph(rows, training)
        is_padding = rows["input_mask"] == 0
        start_scores, starts = (
            x[:, :, None]
            for x in tf.math.top_k(
                tf.where(is_padding, -float("inf"), logits["start_logits"]),
                self._start_beams,
            )
        )
        end_scores, ends = (
            x[:, None, :]
            for x in tf.math.top_k(
                tf.where(is_padding, -float("inf"), logits["end_logits"]),
                self._end_beams,
            )
        )
        return self._pairs(starts, start_scores, ends, end_scores)

    def _of_joint_head(self, rows: Tensors, training: bool) -> Tensors:
        # As `SpanWindow.p_mask`: the context's pieces are the second segment
        # but for its [SEP], the last real token.
        real = rows["input_mask"]
        is_last = real - tf.pad(real[:, 1:], [[0, 0], [0, 1]])
        may_answer = rows["input_type_ids"] - is_last
        is_first = tf.one_hot(0, tf.shape(real)[1], dtype=tf.int32)
        outputs = self._graph(
            {**rows, P_MASK: 1 - may_answer - is_first}, training
        )
        by_start = [-1, self._start_beams, self._end_beams]
        return {
            **self._pairs(
                outputs["start_top_index"][:, :, None],
                outputs["start_top_log_probs"][:, :, None],
                tf.reshape(outputs["end_top_index"], by_start),
                tf.reshape(outputs["end_top_log_probs"], by_start),
            ),
            NULL_SCORES: outputs["is_impossible_logits"],
        }

    def _pairs(
        self,
        starts: tf.Tensor,
        start_scores: tf.Tensor,
        ends: tf.Tensor,
        end_scores: tf.Tensor,
    ) -> Tensors:
        """Pairs `[rows, starts, 1]` with `[rows, starts or 1, ends]`."""
        rows = tf.shape(starts)[0]
        shape = [rows, self._start_beams, self._end_beams]
        values = {
            START_PLACES: starts,
            START_SCORES: start_scores,
            END_PLACES: ends,
            END_SCORES: end_scores,
        }
        flat = [rows, self._start_beams * self._end_beams]
        return {
            name: tf.reshape(tf.broadcast_to(x, shape), flat)
            for name, x in values.items()
        }
