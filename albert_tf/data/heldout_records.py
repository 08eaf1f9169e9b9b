"""Masking of held-out records, once, so that all runs have the same scores."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.data.block_worker import BlockRecords
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.dynamic_examples import ExampleSettings, mask_chunks
from albert_tf.data.tfrecords import (
    FEATURE_OF_INPUT,
    Ragged,
    frame_records,
    join_frames,
    serialize_examples,
)
from albert_tf.data.tokenized_documents import VocabularyTable


class HeldoutMasker:
    """Makes masked records, in Google's format, of the text of blocks.

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
        """Replaces the `unmasked` text of a block, and updates its statistics.

        Draws depend on the seed, the shard and the number of the block only.
        """
        found = collections.Counter(label_1=0, input_tokens=0, predictions=0)
        label_counts = np.zeros_like(block.label_counts)
        shards = []
        for shard, chunks in enumerate(block.unmasked):
            records = []
            if len(chunks["tokens"]):
                features = self._mask(chunks, block.index, shard)
                records = serialize_examples(features)
                is_label = features["masked_lm_weights"] > 0
                found.update(
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
            block,
            counts=collections.Counter({**block.counts, **found}),
            label_counts=label_counts,
            shards=shards,
            unmasked=[],
        )

    def _mask(
        self, chunks: Mapping[str, Ragged], block: int, shard: int
    ) -> dict[str, np.ndarray]:
        """Returns the masked features under Google's names."""
        seed = tf.constant([self._seed, shard], tf.int64)
        seed = tf.random.experimental.stateless_fold_in(seed, block)
        tensors = {
            name: tf.RaggedTensor.from_row_splits(
                feature.values.astype(np.int64), feature.splits
            )
            for name, feature in chunks.items()
        }
        tensors["document"] = tensors["document"].flat_values
        examples = mask_chunks(tensors, self._settings, seed)
        features = {
            feature: examples[name].numpy()
            for name, feature in FEATURE_OF_INPUT.items()
        }
        return features | {
            "token_boundary": examples["token_boundary"].numpy(),
            "next_sentence_labels": features["next_sentence_labels"][:, None],
        }
