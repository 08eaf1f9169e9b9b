"""The settings of pretraining data."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert_tf.data.documents import TEXT_FORMATS
from albert_tf.data.sentence_pairs import ONE_SENTENCE_CHUNKS, SENTENCE_ORDERS
from albert_tf.errors import InputError

if TYPE_CHECKING:
    from albert_tf.text.base_tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig:
    """What pretraining data are made of, how, and where they go.

    Defaults are the original's where nothing else is said. Every value that
    cannot work is an `InputError` that names the field, the value and the rule.

    Attributes:
      input_patterns: text files: glob patterns separated by commas, or a list.
      output_folder: local folder to make.
      tokenizer: turns sentences into ids.
      text_format, language: how files are read; see `read_documents`.
      max_seq_length: tokens of a record, special tokens included.
      max_predictions_per_seq: most predictions of a record. The original's 20
        are 3.9 % of 512 tokens; 76 are 15 %.
      masked_lm_prob: share of a record's tokens to predict, up to that.
      short_seq_prob: share of documents cut into shorter records.
      ngram: most words that are masked together.
      favor_shorter_ngram: draw n words with probability proportional to 1/n.
      do_whole_word_mask: mask all pieces of a word or none.
      sentence_order: "sop", "nsp" or "none"; see `draw_sentence_pairs`.
      one_sentence_chunks: "drop", or "random_next" as the original.
      dupe_factor: passes over the text, each with its own pairs and masks. 10
        is BERT's; the original ALBERT made 40, which costs four times the disk.
      heldout_fraction: share of the documents, chosen by a hash of seed and
        text (so repeats of a text stay together), that go to the split
        "heldout" in a single pass and are never trained on.
      random_seed: equal settings and seeds give equal bytes.
      num_shards: files of the split "train". One is held in memory at a time
        and worker.
      compress: write `.tfrecord.gz`.
      num_workers: processes. Does not change what is written. With more than
        one, a script must guard its start with `if __name__ == "__main__":`.
      overwrite: replace a finished data set. Other files are left alone.
    """

    input_patterns: str | os.PathLike[str] | Sequence[str]
    output_folder: str | os.PathLike[str]
    tokenizer: Tokenizer
    text_format: str = "lines"
    language: str = "en"
    max_seq_length: int = 512
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    sentence_order: str = "sop"
    one_sentence_chunks: str = "drop"
    dupe_factor: int = 10
    heldout_fraction: float = 0.0
    random_seed: int = 12345
    num_shards: int = 8
    compress: bool = False
    num_workers: int = 1
    overwrite: bool = False

    def __post_init__(self):
        for name, minimum in (
            ("max_seq_length", 5),  # [CLS] A [SEP] B [SEP], a token each
            ("max_predictions_per_seq", 1),
            ("ngram", 1),
            ("dupe_factor", 1),
            ("random_seed", 0),
            ("num_shards", 1),
            ("num_workers", 1),
        ):
            value = getattr(self, name)
            self._require(name, value >= minimum, f"at least {minimum}")
        for name in ("masked_lm_prob", "short_seq_prob"):
            value = getattr(self, name)
            self._require(name, 0 <= value <= 1, "in [0, 1]")
        self._require(
            "heldout_fraction", 0 <= self.heldout_fraction < 1, "in [0, 1)"
        )
        self._require(
            "max_predictions_per_seq",
            self.max_predictions_per_seq < self.max_seq_length,
            f"below max_seq_length={self.max_seq_length}",
        )
        for name, choices in (
            ("text_format", TEXT_FORMATS),
            ("sentence_order", SENTENCE_ORDERS),
            ("one_sentence_chunks", ONE_SENTENCE_CHUNKS),
        ):
            rule = f"one of {', '.join(choices)}"
            self._require(name, getattr(self, name) in choices, rule)

    def _require(self, name: str, condition: bool, rule: str) -> None:
        if not condition:
            raise InputError(f"{name}={getattr(self, name)!r} must be {rule}")

    def shards_of_splits(self) -> dict[str, int]:
        """Returns split -> number of files, which are of about equal size."""
        if self.heldout_fraction == 0:
            return {"train": self.num_shards}
        num_heldout = max(1, round(self.num_shards * self.heldout_fraction))
        return {"train": self.num_shards, "heldout": num_heldout}

    def passes(self, split: str) -> int:
        """Returns how often the text of a split is gone through."""
        return self.dupe_factor if split == "train" else 1

    def settings(self) -> dict[str, object]:
        """Returns what decides the content of the records, as JSON values."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name
            not in {
                "input_patterns",
                "output_folder",
                "tokenizer",
                "num_workers",
                "overwrite",
            }
        }
