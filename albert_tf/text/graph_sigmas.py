"""The one letter that `str.lower` treats by its context, in TensorFlow."""

import tensorflow as tf

from albert_tf.text import code_points
from albert_tf.text.graph_lookup import CodePointLookup


class GraphSigmas(tf.Module):
    """Lower-cases capital sigmas by their context, as `str.lower` does."""

    def __init__(self):
        """Bakes the table of this Python's Unicode."""
        super().__init__(name="sigmas")
        self._case = CodePointLookup(code_points.cases())

    def __call__(self, texts: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns `[batch, (code points)]` without capital sigmas."""
        sigma = texts.values == ord(code_points.CAPITAL_SIGMA)
        return texts.with_values(
            tf.cond(
                tf.reduce_any(sigma),
                lambda: self._with_small_sigmas(texts, sigma),
                lambda: texts.values,
            )
        )

    def _with_small_sigmas(
        self, texts: tf.RaggedTensor, sigma: tf.Tensor
    ) -> tf.Tensor:
        case = self._case(texts.values)
        # Only characters that are not case-ignorable are looked at, so after
        # leaving those out every sigma's context is its two neighbours.
        visible = tf.where(case != code_points.CASE_IGNORABLE)[:, 0]
        cased = tf.gather(case, visible) == code_points.CASED
        text_of = tf.gather(texts.value_rowids(), visible)
        together = text_of[1:] == text_of[:-1]
        before = tf.concat([[False], cased[:-1] & together], 0)
        after = tf.concat([cased[1:] & together, [False]], 0)
        lowered = tf.where(
            before & ~after,
            ord(code_points.FINAL_SIGMA),
            ord(code_points.SMALL_SIGMA),
        )
        values = tf.gather(texts.values, visible)
        return tf.tensor_scatter_nd_update(
            texts.values,
            visible[:, None],
            tf.where(tf.gather(sigma, visible), lowered, values),
        )
