"""Masking of whole words in n-grams, as a TensorFlow graph.

The procedure is the same as in `masking.mask_words`, which `create-data` uses:
equal draws give equal masks.
"""

from __future__ import annotations

import tensorflow as tf

from albert_tf.data.data_config import MaskingConfig
from albert_tf.data.masking import (
    KEEP_SHARE,
    MASK_SHARE,
    ngram_probabilities,
)
from albert_tf.data.tokenized_documents import VocabularyTable


def mask_words(
    packed: dict[str, tf.Tensor],
    table: VocabularyTable,
    seed: tf.Tensor,
    config: MaskingConfig,
    quotas: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Masks n-grams of whole words; see `masking.mask_words`.

    Args:
      packed: int32 `input_ids`, bool `is_text` and bool `token_boundary`
        `[rows, seq]`; int32 `lengths` `[rows]` with special tokens.
      table: special ids of the vocabulary.
      seed: int64 `[2]`, random seed.
      config: masking rate, n-grams and number of predictions.
      quotas: int32 `[rows]`, number of tokens to predict; default:
        `num_predictions`.

    Returns:
      int32 `input_word_ids` `[rows, seq]` after masking, int32
      `masked_lm_positions` and `masked_lm_ids`, float32 `masked_lm_weights`
      `[rows, predictions]`; positions ascend, unused entries are 0.
    """
    word_of_token, sizes = _words(packed, config.do_whole_word_mask)
    if quotas is None:
        quotas = num_predictions(packed["lengths"], config)
    draws = tf.random.stateless_uniform(
        tf.concat([[2], tf.shape(sizes)], 0), fold_in(seed, 0), alg="philox"
    )
    # Padding comes last.
    order = tf.argsort(tf.where(sizes > 0, draws[0], 2.0), axis=1, stable=True)
    cumulative = tf.cumsum(
        tf.constant(
            ngram_probabilities(config.ngram, config.favor_shorter_ngram),
            tf.float32,
        )
    )[:-1]
    lengths = 1 + tf.reduce_sum(
        tf.cast(draws[1][..., None] >= cumulative, tf.int32), axis=-1
    )
    taken = take_words(sizes, quotas, order, lengths, config.ngram)
    masked = packed["is_text"] & tf.gather(taken, word_of_token, batch_dims=1)
    return _replace(
        packed["input_ids"],
        masked,
        config.max_predictions_per_seq,
        table,
        fold_in(seed, 1),
    )


def take_words(
    sizes: tf.Tensor,
    quotas: tf.Tensor,
    order: tf.Tensor,
    lengths: tf.Tensor,
    ngram: int,
) -> tf.Tensor:
    """Takes n-grams until the quotas are met; see `masking.take_words`.

    Args:
      sizes: int32 `[rows, words]`, number of tokens of each word, with 0 as
        padding.
      quotas: int32 `[rows]`, number of tokens to take.
      order: int32 `[rows, words]`, the words in the order in which they are
        visited.
      lengths: int32 `[rows, words]`, number of words of the n-gram of each
        visit.
      ngram: maximum length of an n-gram.

    Returns:
      Bool `[rows, words]`, whether each word is taken.
    """
    num_rows, num_words = tf.unstack(tf.shape(sizes))
    words_per_row = tf.math.count_nonzero(sizes, 1, dtype=tf.int32)
    # Number of tokens before each word. The last entry is repeated, so that
    # n-grams end with the text.
    total = tf.reduce_sum(sizes, axis=1, keepdims=True)
    before = tf.concat(
        [
            tf.cumsum(sizes, axis=1, exclusive=True),
            tf.repeat(total, ngram, axis=1),
        ],
        axis=1,
    )
    offsets = tf.range(ngram)
    rows = tf.range(num_rows)
    cells = rows[:, None] * (num_words + ngram)

    def size_of(word, length):
        return tf.gather(before, word + length, batch_dims=1) - tf.gather(
            before, word, batch_dims=1
        )

    def is_unfinished(turn, taken, remaining):
        del taken
        return tf.reduce_any((remaining > 0) & (turn < words_per_row))

    def take_turn(turn, taken, remaining):
        active = (remaining > 0) & (turn < words_per_row)
        word, length = order[:, turn], lengths[:, turn]
        size = size_of(word, length)
        for _ in range(ngram - 1):
            too_long = (size > remaining) & (length > 1)
            length -= tf.cast(too_long, tf.int32)
            size = size_of(word, length)
        inside = offsets < length[:, None]
        span = cells + word[:, None] + offsets
        covered = tf.gather(taken, span)
        free = ~tf.reduce_any(covered & inside, axis=1)
        take = active & free & (size <= remaining)
        taken = tf.tensor_scatter_nd_update(
            taken, span[..., None], covered | (inside & take[:, None])
        )
        return turn + 1, taken, remaining - tf.where(take, size, 0)

    _, taken, _ = tf.while_loop(
        is_unfinished,
        take_turn,
        (0, tf.zeros([num_rows * (num_words + ngram)], tf.bool), quotas),
        parallel_iterations=1,
    )
    return tf.reshape(taken, [num_rows, -1])[:, :num_words]


def num_predictions(lengths: tf.Tensor, config: MaskingConfig) -> tf.Tensor:
    """Returns the number of predictions of rows of `lengths` tokens."""
    if config.masked_lm_prob == 0:
        return tf.zeros_like(lengths)
    # In float64 and half to even, as NumPy does it in `masking`.
    share = tf.cast(lengths, tf.float64) * config.masked_lm_prob
    quotas = tf.maximum(1, tf.cast(tf.math.rint(share), tf.int32))
    return tf.minimum(config.max_predictions_per_seq, quotas)


def _words(
    packed: dict[str, tf.Tensor], do_whole_word_mask: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Groups text tokens into words.

    Returns:
      int32 `[rows, seq]`, the index of each token's word (undefined for special
      tokens), and int32 `[rows, words]`, the number of tokens of each word,
      with 0 as padding.
    """
    starts = is_text = packed["is_text"]
    if do_whole_word_mask:
        # The first piece starts a word even if its word start was cut off.
        first = tf.range(tf.shape(is_text)[1]) == 1
        starts &= packed["token_boundary"] | first
    word_of_token = tf.maximum(
        tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0
    )
    num_rows = tf.shape(starts)[0]
    num_words = tf.reduce_max(word_of_token) + 1
    cells = word_of_token + num_words * tf.range(num_rows)[:, None]
    sizes = tf.math.bincount(
        cells[is_text],
        minlength=num_rows * num_words,
        maxlength=num_rows * num_words,
    )
    return word_of_token, tf.reshape(sizes, [num_rows, num_words])


def _replace(
    input_ids: tf.Tensor,
    masked: tf.Tensor,
    num_predictions: int,
    table: VocabularyTable,
    seed: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Replaces the masked tokens and makes them labels."""
    shape = [tf.shape(input_ids)[0], num_predictions]
    cells = tf.where(masked)
    slots = tf.cumsum(tf.cast(masked, tf.int64), axis=1, exclusive=True)
    slots = tf.stack([cells[:, 0], tf.gather_nd(slots, cells)], axis=1)
    labels = tf.gather_nd(input_ids, cells)
    num_masked = tf.shape(labels)

    text_ids = tf.constant(table.text_ids, tf.int32)
    random_ids = tf.gather(
        text_ids,
        tf.random.stateless_uniform(
            num_masked,
            fold_in(seed, 0),
            0,
            len(table.text_ids),
            tf.int32,
            alg="philox",
        ),
    )
    draws = tf.random.stateless_uniform(
        num_masked, fold_in(seed, 1), alg="philox"
    )
    replaced = tf.where(
        draws < MASK_SHARE,
        table.mask_id,
        tf.where(draws < MASK_SHARE + KEEP_SHARE, labels, random_ids),
    )

    def scatter(values: tf.Tensor) -> tf.Tensor:
        zeros = tf.zeros(shape, values.dtype)
        return tf.tensor_scatter_nd_update(zeros, slots, values)

    return {
        "input_word_ids": tf.tensor_scatter_nd_update(
            input_ids, cells, replaced
        ),
        "masked_lm_positions": scatter(tf.cast(cells[:, 1], tf.int32)),
        "masked_lm_ids": scatter(labels),
        "masked_lm_weights": scatter(tf.ones(num_masked)),
    }


def fold_in(seed: tf.Tensor, number: int) -> tf.Tensor:
    """Derives another seed, int64 `[2]`, for an independent random stream."""
    return tf.random.experimental.stateless_fold_in(seed, number)
