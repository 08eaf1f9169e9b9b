"""Masking of whole words in n-grams for the masked language model."""

from __future__ import annotations

import dataclasses

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
    """Inputs and labels of the masked language model.

    Attributes:
      input_ids: int32 `[pairs, seq]`, ids after masking.
      positions: int32 `[pairs, predictions]`, ascending; 0 where unused.
      ids: int32 `[pairs, predictions]`, ids before masking; 0 where unused.
      weights: float32 `[pairs, predictions]`, 1; 0 where unused.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    weights: np.ndarray


def mask_words(
    packed: PackedPairs,
    table: VocabularyTable,
    rng: np.random.Generator,
    config: MaskingConfig,
) -> MaskedTokens:
    """Masks n-grams of whole words, as the original does.

    A row of n tokens, special tokens included, has round(n * masked_lm_prob)
    predictions, at least 1 and at most `max_predictions_per_seq`. Words are
    visited in random order. At each word, the length of an n-gram that starts
    there is drawn and reduced to the remaining number of predictions; the
    n-gram is taken if none of its words has been taken before. An n-gram may
    extend across the [SEP], and so may a word: pieces at the start of B whose
    word start was cut off belong to the last word of A.

    Each token of such an n-gram becomes [MASK] with probability 0.8, is kept
    with probability 0.1, and otherwise becomes a random token of text. (The
    original draws it from the whole vocabulary, so that 1 in 7500 draws is a
    special token.)

    Args:
      packed: rows of tokens, `[pairs, seq]`.
      table: special ids and word starts of the vocabulary.
      rng: source of all randomness.
      config: masking rate, n-grams and number of predictions.
    """
    word_of_token, word_sizes = _words(packed, config.do_whole_word_mask)
    quotas = num_predictions(packed.input_mask.sum(1), config)
    keys = rng.random(word_sizes.shape, dtype=np.float32)
    order = _order_of_words(np.where(word_sizes > 0, keys, np.float32(2)))
    probabilities = ngram_probabilities(
        config.ngram, config.favor_shorter_ngram
    )
    draws = rng.random(word_sizes.shape)
    ngrams = np.ones(word_sizes.shape, np.int64)
    for threshold in np.cumsum(probabilities)[:-1]:
        ngrams += draws >= threshold
    taken = take_words(word_sizes, quotas, order, ngrams, config.ngram)
    masked = packed.is_text & np.take_along_axis(taken, word_of_token, axis=1)
    return _replace(
        packed.input_ids, masked, config.max_predictions_per_seq, table, rng
    )


def num_predictions(lengths: np.ndarray, config: MaskingConfig) -> np.ndarray:
    """Returns the number of predictions of rows of `lengths` tokens."""
    if config.masked_lm_prob == 0:
        return np.zeros_like(lengths)
    shares = np.rint(lengths * config.masked_lm_prob).astype(np.int64)
    return np.minimum(config.max_predictions_per_seq, np.maximum(1, shares))


def ngram_probabilities(ngram: int, favor_shorter_ngram: bool) -> np.ndarray:
    """Returns the probabilities of n = 1..ngram, `[ngram]`."""
    weights = 1.0 / np.arange(1, ngram + 1)
    if not favor_shorter_ngram:
        weights = weights[::-1]
    return weights / weights.sum()


def _words(
    packed: PackedPairs, do_whole_word_mask: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Groups text tokens into words.

    Returns:
      `[pairs, seq]`, the index of each token's word (undefined for special
      tokens), and `[pairs, words]`, the number of tokens of each word, with 0
      as padding.
    """
    starts = packed.is_text.copy()
    if do_whole_word_mask:
        starts &= packed.token_boundary
        # Truncation may have removed the word start of the first piece of A.
        starts[:, 1] = packed.is_text[:, 1]
    word_of_token = np.maximum(np.cumsum(starts, axis=1) - 1, 0)
    num_rows, num_words = len(starts), word_of_token.max(initial=0) + 1
    cells = word_of_token + num_words * np.arange(num_rows)[:, None]
    sizes = np.bincount(cells[packed.is_text], minlength=num_rows * num_words)
    return word_of_token, sizes.reshape(num_rows, num_words)


def _order_of_words(keys: np.ndarray) -> np.ndarray:
    """Returns a stable argsort of each row, several times faster than NumPy's.

    The bits of positive floats, read as integers, have the same order. With the
    column as the low bits, all are different.

    Args:
      keys: float32 `[rows, words]`, not negative.
    """
    columns = np.arange(keys.shape[1], dtype=np.uint64)
    sortable = keys.view(np.uint32).astype(np.uint64) << 32 | columns
    return (np.sort(sortable, axis=1) & 0xFFFFFFFF).astype(np.int64)


def take_words(
    sizes: np.ndarray,
    quotas: np.ndarray,
    order: np.ndarray,
    lengths: np.ndarray,
    ngram: int,
) -> np.ndarray:
    """Takes n-grams until the quotas are met, in all rows in parallel.

    Args:
      sizes: `[rows, words]`, number of tokens of each word, with 0 as padding.
      quotas: `[rows]`, number of tokens to take.
      order: `[rows, words]`, the words in the order in which they are visited.
      lengths: `[rows, words]`, number of words of the n-gram of each visit.
      ngram: maximum length of an n-gram.

    Returns:
      Bool `[rows, words]`, whether each word is taken.
    """
    offsets = np.arange(ngram)
    # first_token[row, word + n] - first_token[row, word] is the size of an
    # n-gram. The last entry is repeated, so that n-grams end with the text.
    first_token = np.pad(np.cumsum(sizes, axis=1), ((0, 0), (1, 0)))
    first_token = np.pad(first_token, ((0, 0), (0, ngram)), mode="edge")
    num_words = np.count_nonzero(sizes, axis=1)
    taken = np.zeros((sizes.shape[0], sizes.shape[1] + ngram), bool)
    remaining = quotas.copy()
    rows = np.arange(len(sizes))
    for turn in range(sizes.shape[1]):
        rows = rows[(remaining[rows] > 0) & (turn < num_words[rows])]
        if not rows.size:
            break
        word, length = order[rows, turn], lengths[rows, turn]
        first, room = first_token[rows, word], remaining[rows]
        size = first_token[rows, word + length] - first
        for _ in range(ngram - 1):
            length = length - ((size > room) & (length > 1))
            size = first_token[rows, word + length] - first
        words = word[:, None] + offsets
        inside = offsets < length[:, None]
        free = ~(taken[rows[:, None], words] & inside).any(axis=1)
        take = free & (size <= room)
        taken[rows[take, None], words[take]] |= inside[take]
        remaining[rows[take]] -= size[take]
    return taken[:, : sizes.shape[1]]


def _replace(
    input_ids: np.ndarray,
    masked: np.ndarray,
    max_predictions_per_seq: int,
    table: VocabularyTable,
    rng: np.random.Generator,
) -> MaskedTokens:
    """Replaces the masked tokens and makes them labels."""
    rows, columns = np.nonzero(masked)
    labels = input_ids[rows, columns]
    per_row = np.bincount(rows, minlength=len(masked))
    slots = np.arange(len(rows)) - np.repeat(
        np.cumsum(per_row) - per_row, per_row
    )
    shape = (len(masked), max_predictions_per_seq)
    positions, ids = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    weights = np.zeros(shape, np.float32)
    positions[rows, slots] = columns
    ids[rows, slots] = labels
    weights[rows, slots] = 1.0

    text_ids = table.text_ids
    random_ids = text_ids[rng.integers(len(text_ids), size=len(rows))]
    draws = rng.random(len(rows))
    inputs = input_ids.copy()
    inputs[rows, columns] = np.select(
        [draws < MASK_SHARE, draws < MASK_SHARE + KEEP_SHARE],
        [np.int32(table.mask_id), labels],
        random_ids,
    )
    return MaskedTokens(inputs, positions, ids, weights)
