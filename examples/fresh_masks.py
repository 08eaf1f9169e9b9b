"""Masked words and sentence order, drawn anew on the accelerator.

    albert create-data --nopack --output=data ...
    albert convert-data --input=data --output=arrays
    python examples/pretrain_jax.py --input=arrays --output=run \
        --objective_module=examples/fresh_masks.py --objective=fresh_masks \
        --objective_settings=vocabulary=arrays ...

Every step masks its texts anew, so that one pass of `convert-data` serves any
number of epochs: `--num_epochs=20` would need 20 times the memory.
albert_tiny_en was pretrained with it.
"""

import dataclasses
import functools

import keras
import numpy as np
from keras import ops

from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.errors import InputError
from albert_tf.layers.dropout import random_seed
from albert_tf.layers.token_rows import take_rows
from albert_tf.objectives.masked_language_modeling import (
    MaskedLanguageModeling,
)
from albert_tf.objectives.objective import (
    original_ids,
    replace_masked,
    row_weights,
)
from albert_tf.objectives.registry import register_objective
from albert_tf.settings import setting
from albert_tf.text.tokenizer_files import load_tokenizer

# A draw above all others: tokens that are not to be masked.
NEVER = 2.0


@functools.cache
def read_vocabulary(folder):
    """Returns the special ids of a vocabulary, and which pieces start words."""
    return VocabularyTable.from_tokenizer(load_tokenizer(folder))


@register_objective
@dataclasses.dataclass(frozen=True, kw_only=True)
class FreshMasks(MaskedLanguageModeling):
    """Masked language modeling that draws masks and pairs in every step.

    Whole words are masked, each together with the next one with a probability
    of 0.4: 1.6 words at a time on average, as with the up to three words of
    `create-data`. The last word of a row may be cut, so that its number of
    predictions is known before the draw. 80 % of the tokens become [MASK], 10 %
    a random piece.

    Half of the pairs get the label 1. Their segments are swapped or, in half of
    the short pairs, the second one is replaced by that of another example.
    (Long pairs fill the row, so their length would give the replacement away.)
    """

    name = "fresh_masks"

    vocabulary: str = setting("", "Folder of the tokenizer.")
    masked_lm_prob: float = setting(
        0.15, "Share of the tokens to predict.", bounds="(0, 0.5]"
    )
    partner_length: float = setting(
        0.6,
        "Maximum length of pairs whose second segment may be replaced.",
        bounds="[0, 1]",
    )

    def __post_init__(self):
        super().__post_init__()
        if not self.vocabulary:
            raise InputError(f"objective={self.name}: vocabulary=FOLDER")
        if self.pair_task == "nsp":  # The text of their order is not known.
            raise InputError(
                f"objective={self.name}: draws pairs from records of segments "
                "in their order; create them with --sentence_order=sop or none"
            )

    def weights(self, batch):
        """Returns the weights of the masked tokens, and of the pairs."""
        if "sequence_ids" in batch:
            raise InputError(
                f"objective={self.name}: records have several sequences; "
                "create them with --nopack"
            )
        lengths = ops.sum(ops.cast(batch["input_mask"], "float32"), axis=1)
        quotas = ops.maximum(1.0, ops.round(lengths * self.masked_lm_prob))
        picks = ops.arange(batch["masked_lm_ids"].shape[1], dtype="float32")
        return {
            "mlm": ops.cast(picks < quotas[:, None], "float32")
            * row_weights(batch)[:, None],
            **self.sentence_order_weights(batch),
        }

    def terms(self, model, batch, training):
        """Computes the terms of a batch whose draws are new."""
        ids = original_ids(batch)
        # Those by which the caller weights the loss. A replaced segment may be
        # shorter, and has tokens enough: a pair shrinks by less than a half.
        weights = self.weights(batch)["mlm"]
        if self.pair_task != "none":
            batch = {**batch, **self.draw_pairs(batch, ids)}
            ids = batch["input_word_ids"]
        batch = {**batch, **self.draw_masks(batch, ids, weights)}
        return super().terms(model, batch, training)

    def draw_pairs(self, batch, ids):
        """Returns ids, types, mask and labels of pairs whose order is drawn."""
        types = ops.cast(batch["input_type_ids"], "int32")
        labels = ops.cast(batch["sentence_order_labels"], "int32")
        total = ops.sum(ops.cast(batch["input_mask"], "int32"), axis=1)
        second = ops.sum(types, axis=1)  # with its [SEP]
        first = total - second - 2  # without [CLS] and [SEP]
        is_pair = second > 0
        rows, length = ops.shape(ids)
        # Segments in the order of the text: where they start, and lengths.
        is_swapped = is_pair & (labels == 1)
        a = (
            ops.where(is_swapped, first + 2, 1),
            ops.where(is_swapped, second - 1, first),
        )
        b = (
            ops.where(is_swapped, 1, first + 2),
            ops.where(is_swapped, first, second - 1),
        )
        draws = keras.random.uniform((2, rows), seed=random_seed())
        partner = tuple(ops.roll(x, 1) for x in b)
        other = a[1] + partner[1] + 3
        short = self.partner_length * length
        is_random = (
            is_pair
            & (rows > 1)  # else, the partner is the pair itself
            & ops.roll(is_pair, 1)
            & (draws[0] < 0.5)
            & (draws[1] < 0.5)
            & (ops.cast(total, "float32") < short)
            & (ops.cast(other, "float32") < short)
            & (2 * other > total)
        )
        is_reversed = is_pair & (draws[0] < 0.5) & ~is_random
        left = [ops.where(is_reversed, y, x) for x, y in zip(a, b, strict=True)]
        right = [
            ops.where(is_random, z, ops.where(is_reversed, x, y))
            for x, y, z in zip(a, b, partner, strict=True)
        ]
        end = ops.where(is_random, other, total)[:, None]
        column = ops.arange(length, dtype="int32")[None]
        start = left[1][:, None] + 2  # of the second segment
        in_left = (column > 0) & (column < start - 1)
        in_right = (column >= start) & (column < end - 1)
        source = ops.where(in_left, column - 1 + left[0][:, None], 0)
        source = ops.where(in_right, column - start + right[0][:, None], source)
        moved = take_rows(ids, source, batch_dims=1)
        rolled = take_rows(ops.roll(ids, 1, axis=0), source, batch_dims=1)
        moved = ops.where(in_right & is_random[:, None], rolled, moved)
        # [CLS] and [SEP] are those of the example.
        separator = take_rows(ids, total[:, None] - 1, batch_dims=1)
        at_end = (column == start - 1) | (column == end - 1)
        moved = ops.where(at_end, separator, moved)
        moved = ops.where(column == 0, ids[:, :1], moved)
        moved = ops.where(column < end, moved, 0)
        pair = is_pair[:, None]
        return {
            "input_word_ids": ops.where(pair, moved, ids),
            "input_type_ids": ops.where(
                pair, ops.cast((column >= start) & (column < end), "int32"), 0
            ),
            "input_mask": ops.cast(column < end, "int32"),
            "sentence_order_labels": ops.cast(is_reversed | is_random, "int32"),
        }

    def draw_masks(self, batch, ids, weights):
        """Returns masked ids, and position, id and weight of predictions."""
        table = read_vocabulary(self.vocabulary)
        is_text = np.isin(np.arange(len(table.word_starts)), table.text_ids)
        real = ops.cast(batch["input_mask"], "bool")
        maskable = real & ops.take(ops.convert_to_tensor(is_text), ids)
        rows, length = ops.shape(ids)
        picks = batch["masked_lm_ids"].shape[1]
        shape = (2, rows, length)
        draws = keras.random.uniform(shape, seed=random_seed())
        joins, keys = draws[0], draws[1]  # Tensors of graphs do not unpack.
        begins = ops.take(ops.convert_to_tensor(table.word_starts), ids)
        before = ops.pad(~maskable[:, :-1], ((0, 0), (1, 0)))
        begins = before | (begins & (joins >= 0.4)) | ~maskable
        span = ops.cumsum(ops.cast(begins, "int32"), axis=1)
        span = ops.minimum(span, length - 1)
        keys = ops.where(maskable, take_rows(keys, span, batch_dims=1), NEVER)
        # Equal keys, those of a span, stay in the order of the text.
        _, positions = ops.top_k(-keys, picks)
        positions = ops.cast(positions, "int32")
        labels = take_rows(ids, positions, batch_dims=1)
        draws = keras.random.uniform((2, rows, picks), seed=random_seed())
        text = ops.convert_to_tensor(table.text_ids)
        pick = ops.cast(draws[1] * len(table.text_ids), "int32")
        random = ops.take(text, pick)
        mask = ops.full_like(labels, self.known_mask_id())
        put = ops.where(draws[0] < 0.8, mask, labels)
        put = ops.where(draws[0] >= 0.9, random, put)
        masks = {
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": weights,
        }
        masked = replace_masked({"input_word_ids": ids, **masks}, put)
        return {"input_word_ids": masked, **masks}
