"""Tables of code points as TensorFlow constants."""

import numpy as np
import tensorflow as tf

from albert_tf.text import code_points


class CodePointLookup(tf.Module):
    """A `CodePointMap` as constants."""

    def __init__(self, code_point_map: code_points.CodePointMap):
        """Keeps the map on the CPU, where all string operations are.

        Eager constants, so that functions traced from one object share them.
        """
        super().__init__()
        with tf.init_scope(), tf.device("CPU:0"):
            self._pages = tf.constant(code_point_map.pages)
            self._entries = tf.constant(code_point_map.entries.reshape(-1))

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """Returns int32 values for int32 code points of any shape."""
        page = tf.gather(
            self._pages,
            tf.bitwise.right_shift(values, code_points.PAGE_BITS),
        )
        within = tf.bitwise.bitwise_and(
            values, (1 << code_points.PAGE_BITS) - 1
        )
        return tf.gather(
            self._entries,
            tf.bitwise.left_shift(page, code_points.PAGE_BITS) + within,
        )


def image_rows(images: code_points.Images) -> tf.RaggedTensor:
    """Returns the images that are not one code point, as eager constants."""
    with tf.init_scope(), tf.device("CPU:0"):
        return tf.RaggedTensor.from_row_splits(
            tf.constant(
                np.array([ord(c) for c in "".join(images.rows)], np.int32)
            ),
            tf.constant(np.cumsum([0, *map(len, images.rows)]), tf.int64),
        )
