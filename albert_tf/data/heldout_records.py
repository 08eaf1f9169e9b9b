"""Masking of held-out records, once, so that all runs have the same scores."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.data.block_worker import (
    BlockRecords,
    join_frames,
    split_frames,
)
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.dynamic_examples import (
    CHUNK_FEATURES,
    ExampleSettings,
    make_examples,
)
from albert_tf.data.record_writer import (
    FEATURE_OF_INPUT,
    frame_records,
    serialize_examples,
    unframe_record,
)
from albert_tf.data.tokenized_documents import VocabularyTable


class HeldoutMasker:
    """Converts records of text to masked records in Google's format.

    Segments and masks are drawn as in training.
    """

    def __init__(self, config: PretrainingDataConfig):
        self._seed = config.seed
        self._settings = ExampleSettings(
            VocabularyTable.from_tokenizer(config.tokenizer),
            config.max_seq_length,
            config.sentence_order,
            config,
        )

    def __call__(self, block: BlockRecords) -> BlockRecords:
        """Masks the records of a block and updates its statistics.

        Draws depend on the seed, the shard and the number of the block only.
        """
        counts = block.counts.copy()
        for name in ("input_tokens", "predictions"):
            del counts[name]
        label_counts = np.zeros_like(block.label_counts)
        shards = []
        for shard, (lengths, joined) in enumerate(block.shards):
            records = list(map(unframe_record, split_frames(lengths, joined)))
            if records:
                features = self._mask(records, block.index, shard)
                records = serialize_examples(features)
                is_label = features["masked_lm_weights"] > 0
                counts.update(
                    label_1=int(features["next_sentence_labels"].sum()),
                    input_tokens=int(features["input_mask"].sum()),
                    predictions=int(is_label.sum()),
                )
                label_counts += np.bincount(
                    features["masked_lm_ids"][is_label],
                    minlength=len(label_counts),
                )
            shards.append(join_frames(frame_records(records)))
        return dataclasses.replace(
            block, counts=counts, label_counts=label_counts, shards=shards
        )

    def _mask(
        self, records: list[bytes], block: int, shard: int
    ) -> dict[str, np.ndarray]:
        """Returns the masked features under Google's names."""
        seed = tf.constant([self._seed, shard], tf.int64)
        seed = tf.random.experimental.stateless_fold_in(seed, block)
        chunks = tf.io.parse_example(tf.constant(records), CHUNK_FEATURES)
        batch = make_examples(chunks, self._settings, seed)
        table = self._settings.table
        arrays = {name: value.numpy() for name, value in batch.items()}
        original = arrays["input_word_ids"].copy()
        rows, slots = np.nonzero(arrays["masked_lm_weights"])
        columns = arrays["masked_lm_positions"][rows, slots]
        original[rows, columns] = arrays["masked_lm_ids"][rows, slots]
        is_special = np.isin(original, [table.cls_id, table.sep_id])
        boundary = is_special | table.word_starts[original]
        features = {
            feature: arrays[name] for name, feature in FEATURE_OF_INPUT.items()
        }
        return features | {
            "token_boundary": arrays["input_mask"] * boundary,
            "next_sentence_labels": arrays["sentence_order_labels"][:, None],
        }
