"""Masking of whole words in n-grams for the masked language model.

In NumPy for static records, and in the input pipeline's graph for dynamic ones;
`array_ops` has the functions that differ.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from albert_tf.data.data_config import MaskingConfig
from albert_tf.data.sentence_pairs import PackedPairs
from albert_tf.data.tokenized_documents import VocabularyTable

# Shares of the predicted tokens that become [MASK] and that are kept. The rest
# become a random token (BERT; Devlin et al. 2019, section 3.1).
MASK_SHARE = 0.8
KEEP_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class MaskedTokens:
    """Inputs and labels of the masked language model: arrays or tensors.

    Attributes:
      input_ids: integers `[pairs, seq]`, ids after masking.
      positions: integers `[pairs, predictions]`, ascending; 0 where unused.
      ids: integers `[pairs, predictions]`, ids before masking; 0 where unused.
      weights: float32 `[pairs, predictions]`, 1; 0 where unused.
    """

    input_ids: Any
    positions: Any
    ids: Any
    weights: Any


def mask_words(
    ops: Any,
    packed: PackedPairs,
    quotas: Any,
    table: VocabularyTable,
    config: MaskingConfig,
) -> MaskedTokens:
    """Masks n-grams of whole words, as the original does.

    Words are visited in random order. At each word, the length of an n-gram
    that starts there is drawn and reduced to the remaining number of
    predictions; the n-gram is taken if none of its words has been taken before.
    An n-gram may extend across the [SEP], and so may a word: pieces at the
    start of B whose word start was cut off belong to the last word of A.

    Each token of such an n-gram becomes [MASK] with probability 0.8, is kept
    with probability 0.1, and otherwise becomes a random token of text. (The
    original draws it from the whole vocabulary, so that 1 in 7500 draws is a
    special token.)

    Args:
      ops: `ArrayOps` or `TensorOps`, with the source of all randomness.
      packed: rows of tokens, `[pairs, seq]`.
      quotas: integers `[pairs]`, the most tokens to predict; usually
        `num_predictions` of the lengths.
      table: special ids and word starts of the vocabulary.
      config: n-grams and number of predictions.
    """
    word_cells, sizes = _words(ops, packed, config.do_whole_word_mask)
    keys, draws = ops.draw_words(ops.shape(sizes))
    # Padding comes last.
    order = ops.argsort(ops.where(sizes > 0, keys, 2.0))
    probabilities = ngram_probabilities(
        config.ngram, config.favor_shorter_ngram
    )
    thresholds = [0.0, *np.cumsum(probabilities)[:-1].tolist()]
    lengths = sum(ops.integers(draws >= each) for each in thresholds)
    taken = take_words(ops, sizes, quotas, order, lengths, config.ngram)
    masked = packed.is_text & ops.gather(ops.reshape(taken, [-1]), word_cells)
    return _replace(
        ops, packed.input_ids, masked, config.max_predictions_per_seq, table
    )


def num_predictions(max_length: int, config: MaskingConfig) -> np.ndarray:
    """Returns the number of predictions of rows of each length.

    A row of n tokens, special tokens included, has round(n * masked_lm_prob),
    at least 1 and at most `max_predictions_per_seq`.

    Returns:
      int32 `[max_length + 1]`, for 0 to `max_length` tokens.
    """
    lengths = np.arange(max_length + 1)
    if config.masked_lm_prob == 0:
        return np.zeros_like(lengths, np.int32)
    shares = np.rint(lengths * config.masked_lm_prob).astype(np.int32)
    return shares.clip(1, config.max_predictions_per_seq)


def ngram_probabilities(ngram: int, favor_shorter_ngram: bool) -> np.ndarray:
    """Returns the probabilities of n = 1..ngram, `[ngram]`."""
    weights = 1.0 / np.arange(1, ngram + 1)
    if not favor_shorter_ngram:
        weights = weights[::-1]
    return weights / weights.sum()


def _words(
    ops: Any, packed: PackedPairs, do_whole_word_mask: bool
) -> tuple[Any, Any]:
    """Groups text tokens into words.

    Returns:
      `[pairs, seq]`, the cell of each token's word in the flattened sizes
      (undefined for special tokens), and `[pairs, words]`, the number of tokens
      of each word, with 0 as padding.
    """
    starts = packed.is_text
    if do_whole_word_mask:
        # Truncation may have removed the word start of the first piece of A.
        is_first = ops.arange(packed.is_text.shape[1]) == 1
        starts = starts & (packed.token_boundary | is_first)
    word = ops.maximum(ops.cumsum(ops.integers(starts)) - 1, 0)
    num_rows, num_words = ops.shape(starts)[0], ops.largest(word) + 1
    cells = word + num_words * ops.arange(num_rows)[:, None]
    sizes = ops.bincount(cells[packed.is_text], minlength=num_rows * num_words)
    return cells, ops.reshape(sizes, [num_rows, num_words])


def take_words(
    ops: Any, sizes: Any, quotas: Any, order: Any, lengths: Any, ngram: int
) -> Any:
    """Takes n-grams until the quotas are met, in all rows in parallel.

    Args:
      ops: `ArrayOps` or `TensorOps`.
      sizes: `[rows, words]`, number of tokens of each word, with 0 as padding.
      quotas: `[rows]`, number of tokens to take.
      order: `[rows, words]`, the words in the order in which they are visited.
      lengths: `[rows, words]`, number of words of the n-gram of each visit.
      ngram: maximum length of an n-gram.

    Returns:
      Bool `[rows, words]`, whether each word is taken.
    """
    num_rows, num_words = ops.shape(sizes)
    # With padding, n-grams end with the text.
    width = num_words + ngram
    padded = ops.pad(sizes, ngram)
    before = ops.reshape(ops.cumsum(padded) - padded, [-1])
    order, lengths = ops.reshape(order, [-1]), ops.reshape(lengths, [-1])
    visits = ops.cumsum(ops.integers(sizes > 0))[:, -1]
    offsets = ops.arange(ngram)

    def unfinished_rows(turn: Any, remaining: Any) -> Any:
        return (remaining > 0) & (visits > turn)

    def is_unfinished(turn: Any, taken: Any, remaining: Any) -> Any:
        del taken
        return ops.any(unfinished_rows(turn, remaining)[None])[0]

    def take_turn(turn: Any, taken: Any, remaining: Any) -> tuple[Any, ...]:
        rows = ops.flatnonzero(unfinished_rows(turn, remaining))
        room = ops.gather(remaining, rows)
        visit = rows * num_words + turn
        first = rows * width + ops.gather(order, visit)
        length = ops.gather(lengths, visit)
        start = ops.gather(before, first)
        size = ops.gather(before, first + length) - start
        for _ in range(ngram - 1):
            length = length - ops.integers((size > room) & (length > 1))
            size = ops.gather(before, first + length) - start
        cells = first[:, None] + offsets
        inside = offsets < length[:, None]
        covered = ops.gather(taken, cells)
        take = ~ops.any(covered & inside) & (size <= room)
        taken = ops.replace(taken, cells, covered | (inside & take[:, None]))
        room = room - ops.integers(take) * size
        return turn + 1, taken, ops.replace(remaining, rows, room)

    taken = ops.zeros([num_rows * width], ops.boolean)
    _, taken, _ = ops.while_loop(is_unfinished, take_turn, (0, taken, quotas))
    return ops.reshape(taken, [num_rows, width])[:, :num_words]


def _replace(
    ops: Any,
    input_ids: Any,
    masked: Any,
    max_predictions: int,
    table: VocabularyTable,
) -> MaskedTokens:
    """Replaces the masked tokens and makes them labels."""
    num_rows, seq = ops.shape(input_ids)
    flat_ids = ops.reshape(input_ids, [-1])
    cells = ops.flatnonzero(masked)
    labels = ops.gather(flat_ids, cells)
    text_ids = table.text_ids
    number, draws = ops.draw_replacements(cells, len(text_ids))
    random_ids = ops.gather(text_ids, number)
    replaced = ops.where(
        draws < MASK_SHARE,
        table.mask_id,
        ops.where(draws < MASK_SHARE + KEEP_SHARE, labels, random_ids),
    )
    rows, columns = cells // seq, cells % seq
    number_in_row = ops.reshape(ops.cumsum(ops.integers(masked)) - 1, [-1])
    slots = rows * max_predictions + ops.gather(number_in_row, cells)

    def scatter(values: Any) -> Any:
        zeros = ops.zeros([num_rows * max_predictions], values.dtype)
        values = ops.replace(zeros, slots, values)
        return ops.reshape(values, [num_rows, max_predictions])

    return MaskedTokens(
        ops.reshape(ops.replace(flat_ids, cells, replaced), [num_rows, seq]),
        scatter(columns),
        scatter(labels),
        scatter(ops.zeros(ops.shape(cells), ops.floating) + 1),
    )
