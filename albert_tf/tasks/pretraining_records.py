"""Pretraining records as a run sees them: described, and found to fit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.check_records import check_records
from albert_tf.data.input_pipeline import pretraining_dataset
from albert_tf.data.record_files import find_record_files
from albert_tf.errors import InputError
from albert_tf.tasks.pretrain_config import METRICS
from albert_tf.tasks.pretraining import pretraining_task
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
    """Records that fit a model.

    Attributes:
      patterns: a folder of records, or globs.
      split: "train" or "heldout", of a folder.
      max_seq_length: tokens of a record.
      max_predictions_per_seq: predictions of a record.
      manifest: what `create_pretraining_data` says of them; None for records
        of other origin.
    """

    patterns: str | Sequence[str]
    split: str
    max_seq_length: int
    max_predictions_per_seq: int
    manifest: dict[str, Any] | None

    @property
    def has_heldout(self) -> bool:
        """Whether there is a split for evaluation."""
        return bool(self.manifest and "heldout" in self.manifest["splits"])

    def metrics(self) -> tuple[str, ...]:
        """Returns the names that the evaluation of a run on them has."""
        if not self.has_heldout:
            return ()
        sentence_order = pretraining_task(self.manifest).sentence_order
        return tuple(m for m in METRICS if sentence_order or "sop" not in m)

    def dataset(self, global_batch_size: int, **settings) -> tf.data.Dataset:
        """Returns batches; `settings` as in `pretraining_dataset`."""
        return pretraining_dataset(
            self.patterns,
            global_batch_size=global_batch_size,
            max_seq_length=self.max_seq_length,
            max_predictions_per_seq=self.max_predictions_per_seq,
            **{"split": self.split, **settings},
        )

    def identity(self) -> str:
        """Returns a hash that tells data sets apart, wherever they lie."""
        described = [
            file.manifest or os.path.basename(os.fspath(file.path))
            for file in find_record_files(self.patterns)
        ]
        text = json.dumps(described, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def open_records(
    patterns: str | Sequence[str], model: AlbertConfig, split: str = "train"
) -> PretrainingRecords:
    """Finds records and refuses those that do not fit the model.

    Raises:
      InputError: there are none, they cannot be read, or their vocabulary or
        length is not the model's.
    """
    length, predictions = check_records(
        patterns, vocab_size=model.vocab_size, split=split
    )
    if length > model.max_position_embeddings:
        raise InputError(
            f"records {patterns}: {length} tokens a record, more than the "
            f"model's max_position_embeddings={model.max_position_embeddings}"
        )
    return PretrainingRecords(
        patterns, split, length, predictions, records_manifest(patterns, split)
    )


def records_manifest(
    patterns: str | Sequence[str], split: str = "train"
) -> dict[str, Any] | None:
    """Returns the manifest of the records, or None if they have none."""
    return find_record_files(patterns, split)[0].manifest


def records_tokenizer(patterns: str | Sequence[str]) -> Tokenizer | None:
    """Returns the tokenizer beside the records, or None without a manifest."""
    first = find_record_files(patterns)[0]
    if first.manifest is None:
        return None
    return load_tokenizer(os.path.dirname(os.fspath(first.path)))
