"""Replacing a few elements of ragged tensors by runs of others."""

import tensorflow as tf


def replace_elements(
    ragged: tf.RaggedTensor,
    places: tf.Tensor,
    rows: tf.RaggedTensor,
    row_of_place: tf.Tensor,
) -> tf.RaggedTensor:
    """Puts rows of a table in the place of some elements.

    What it costs beyond copying grows with the number of places, not with that
    of the elements.

    Args:
      ragged: `[batch, (elements)]`.
      places: int64 `[places]`, increasing: indices of all elements, laid end
        to end.
      rows: `[rows, (elements)]`, what may be put in; rows may be empty.
      row_of_place: int64 `[places]`, the row for each place.

    Returns:
      `[batch, (elements)]`, like `ragged` but for the places.
    """
    # One table: after `rows`, the elements themselves, each place and each run
    # between two places being a row. Every other row of these is a run.
    num_rows = rows.nrows()
    num_elements = tf.size(ragged.values, tf.int64)
    table = tf.RaggedTensor.from_row_splits(
        tf.concat([rows.values, ragged.values], 0),
        tf.concat(
            [
                rows.row_splits,
                rows.row_splits[-1] + _interleave(places, places + 1),
                rows.row_splits[-1:] + num_elements,
            ],
            0,
        ),
        validate=False,
    )
    runs = num_rows + 2 * tf.range(tf.size(places, tf.int64) + 1)
    chosen = tf.concat([_interleave(runs[:-1], row_of_place), runs[-1:]], 0)

    growth = tf.gather(rows.row_lengths(), row_of_place) - 1
    shift = tf.concat([[0], tf.cumsum(growth)], 0)
    splits = ragged.row_splits + tf.gather(
        shift, tf.searchsorted(places, ragged.row_splits)
    )
    return tf.RaggedTensor.from_row_splits(
        tf.gather(table, chosen).values, splits, validate=False
    )


def replaced_lengths(
    ragged: tf.RaggedTensor,
    places: tf.Tensor,
    rows: tf.RaggedTensor,
    row_of_place: tf.Tensor,
) -> tf.Tensor:
    """Returns how many elements each one has become in `replace_elements`.

    Returns:
      int64 `[all elements]`.
    """
    return tf.tensor_scatter_nd_update(
        tf.ones_like(ragged.values, tf.int64),
        places[:, None],
        tf.gather(rows.row_lengths(), row_of_place),
    )


def _interleave(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Returns first[0], second[0], first[1], second[1], ..."""
    return tf.reshape(tf.stack([first, second], axis=1), [-1])
