"""Places in strings, as TensorFlow operations."""

import tensorflow as tf


def character_offsets(
    texts: tf.RaggedTensor, offsets: tf.RaggedTensor
) -> tf.Tensor:
    """Turns byte offsets in each text into characters of all texts.

    Args:
      texts: ragged `[batch, (characters)]`, code points.
      offsets: ragged `[batch, (tokens)]`, bytes of the text in UTF-8.

    Returns:
      int64 `[all tokens]`: characters of all texts laid end to end.
    """
    lengths = tf.ones_like(texts.values, tf.int64)
    for last in (0x7F, 0x7FF, 0xFFFF):  # The last of 1, 2 and 3 bytes.
        lengths += tf.cast(texts.values > last, tf.int64)
    borders = tf.concat([[0], tf.cumsum(lengths)], 0)
    begin = tf.gather(borders, texts.row_starts())
    return tf.searchsorted(
        borders,
        tf.gather(begin, offsets.value_rowids()) + offsets.values,
        out_type=tf.int64,
    )
