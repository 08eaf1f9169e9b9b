"""Pretraining records: opened and checked once, then read as batches."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data.data_config import MaskingConfig, WordStarts
from albert_tf.data.dynamic_examples import ExampleSettings
from albert_tf.data.manifest import SPLITS, find_manifest
from albert_tf.data.mixture import Corpus, find_corpora
from albert_tf.data.record_baselines import compute_baselines
from albert_tf.data.record_batches import (
    ReadConfig,
    masked_batches,
    text_batches,
)
from albert_tf.data.record_checks import (
    BAD_RECORDS,
    RecordLimits,
    TextLimits,
    verify_file,
)
from albert_tf.data.record_files import (
    RecordFile,
    check_one_format,
    check_one_vocabulary,
    find_splits,
    group_by_corpus,
)
from albert_tf.data.record_order import GROUP_RECORDS, compute_quotas
from albert_tf.data.record_samples import Sample, common_lengths, sample_files
from albert_tf.errors import InputError
from albert_tf.files import PathPatterns
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.training.input import MISCOUNTED, batch_options

# A model whose accuracy is less than this many times that of the most frequent
# token has not left the plateau (docs/small_models.md).
PLATEAU = 3.0


@dataclasses.dataclass(frozen=True)
class Records:
    """Pretraining records of one size, opened by `open_records`.

    Attributes:
      split: the split to read, "train" or "heldout".
      files: split -> files, without duplicates.
      samples: path -> sample, of the files that were inspected.
      max_seq_length: tokens per record.
      max_predictions_per_seq: predictions per record.
      manifest: manifest of the first file; None if it has none.
      corpora: the corpora of a mixture, with their weights.
    """

    split: str
    files: Mapping[str, tuple[RecordFile, ...]]
    samples: Mapping[str, Sample]
    max_seq_length: int
    max_predictions_per_seq: int
    manifest: Mapping[str, Any] | None = None
    corpora: tuple[Corpus, ...] = ()

    @property
    def _settings(self) -> Mapping[str, Any]:
        return self.manifest["settings"] if self.manifest else {}

    @property
    def pair_task(self) -> str:
        """The task of sentence pairs: "sop", "nsp" or "none".

        It is "sop" for records without a manifest, such as Google's.
        """
        return self._settings.get("sentence_order", "sop")

    @property
    def word_starts(self) -> WordStarts:
        """Which pieces start a word; see `starts_word`."""
        return self._settings.get("word_starts", MaskingConfig.word_starts)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer in the folder of the records; None without a manifest.

        Raises:
          InputError: if it is not the one that the records were made with.
        """
        if self.manifest is None:
            return None
        folder = os.path.dirname(self.files[self.split][0].path)
        tokenizer = load_tokenizer(folder)
        made_with = self.manifest["tokenizer"]
        found = tokenizer.settings | {
            "fingerprint": tokenizer.fingerprint,
            "vocab_size": tokenizer.vocab_size,
        }
        for name in found.keys() & made_with.keys():
            if found[name] != made_with[name]:
                raise InputError(
                    f"{folder}: the tokenizer has {name}={found[name]}, but "
                    f"according to the manifest the records were made with "
                    f"{made_with[name]}; copy the folder again, or make the "
                    "data again"
                )
        return tokenizer

    @functools.cached_property
    def identity(self) -> str:
        """A hash that identifies the data, independent of their path."""
        contents = [file.identity for file in self.files[self.split]]
        contents += [[corpus.name, corpus.weight] for corpus in self.corpora]
        text = json.dumps(contents, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def check_model(self, model: AlbertConfig) -> None:
        """Checks that vocabulary and positions of a model fit the records.

        Token ids are checked only in `samples`; `dataset` checks each batch.
        """
        for file in itertools.chain(*self.files.values()):
            if file.manifest is None:
                continue
            pieces = file.manifest["tokenizer"]["vocab_size"]
            if pieces > model.vocab_size:
                raise InputError(
                    f"records {file.path}: made with a vocabulary of {pieces} "
                    f"pieces, more than vocab_size={model.vocab_size}; use "
                    "records and a model with the same vocabulary"
                )
            has_pairs = file.manifest["settings"]["sentence_order"] != "none"
            if has_pairs and model.type_vocab_size < 2:
                raise InputError(
                    f"records {file.path}: pairs of segments, which need "
                    f"type_vocab_size=2, not {model.type_vocab_size}; use "
                    "another model, or records with --sentence_order=none"
                )
        for path, sample in self.samples.items():
            if sample.largest_id >= model.vocab_size:
                raise InputError(
                    f"records {path}: token id {sample.largest_id} must be "
                    f"below vocab_size={model.vocab_size}; use the vocabulary "
                    "of the data"
                )
        if self.max_seq_length > model.max_position_embeddings:
            raise InputError(
                f"records {self.files[self.split][0].path}: "
                f"{self.max_seq_length} tokens per record, more than the "
                "model's max_position_embeddings="
                f"{model.max_position_embeddings}"
            )

    def baselines(self, split: str | None = None) -> dict[str, float]:
        """Returns the accuracies of constant predictions on a split.

        Args:
          split: "train" or "heldout"; default: `self.split`.

        Returns:
          `mlm_unigram_accuracy` (always the most frequent training label, the
          same for all data sets; left out if their manifests do not tell it)
          and, for pairs, `sop_chance` or `nsp_chance` (always the more
          frequent order), `sop_rule` and `sop_shallow` (the rule and the
          classifier of `measure_shortcuts`); empty if a manifest with the
          split is missing.
        """
        split = split or self.split
        files = self.files.get(split, self.files[self.split])
        return compute_baselines(files, split, self.pair_task)

    def dataset(
        self,
        global_batch_size: int,
        *,
        seed: int = 0,
        first_example: int = 0,
        training: bool = True,
        split: str | None = None,
        model: AlbertConfig | None = None,
        reading_groups: int = 1,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        """Returns batches; see `pretraining_dataset` and `ReadConfig`.

        A record with values that `model` cannot be trained on is a TensorFlow
        error when it is read; `explained_errors` explains it.
        """
        if global_batch_size < 1:
            raise InputError(
                f"global_batch_size={global_batch_size} must be at least 1"
            )
        split = split or self.split
        limits = self._limits(split, model)
        config = ReadConfig(
            corpora=[*group_by_corpus(self.files[split]).values()],
            quotas=compute_quotas(self.corpora, GROUP_RECORDS),
            global_batch_size=global_batch_size,
            seed=seed,
            first_example=first_example,
            training=training,
            reading_groups=reading_groups,
            input_context=input_context,
        )
        if training:
            config.check_reading_groups()
        if isinstance(limits, TextLimits):
            assert self.manifest is not None  # Text is read only with one.
            assert self.tokenizer is not None
            settings = ExampleSettings.from_manifest(
                self.manifest["settings"], self.tokenizer
            )
            batches = text_batches(config, limits, settings)
        else:
            batches = masked_batches(config, limits)
        return batches.prefetch(tf.data.AUTOTUNE).with_options(batch_options())

    def _limits(
        self, split: str, model: AlbertConfig | None
    ) -> RecordLimits | TextLimits:
        vocab_size = np.iinfo(np.int32).max
        if model is not None:
            vocab_size = model.vocab_size
        elif self.manifest is not None:
            vocab_size = self.manifest["tokenizer"]["vocab_size"]
        if self.files[split][0].is_text:
            num_special = 2 if self.pair_task == "none" else 3
            return TextLimits(
                max_tokens=self.max_seq_length - num_special,
                vocab_size=vocab_size,
                max_sequences=self._settings.get("max_sequences_per_row", 0),
            )
        return RecordLimits(
            self.max_seq_length,
            self.max_predictions_per_seq,
            vocab_size,
            model.type_vocab_size if model else 2,
        )

    def verify(self, model: AlbertConfig | None = None) -> int:
        """Reads all files completely, and verifies checksums and values.

        Returns:
          The number of records.

        Raises:
          InputError: if a file is damaged, the number of its records is not
            that counted before, or a record has a value out of bounds.
        """
        total = 0
        for split, files in self.files.items():
            for file in files:
                count = verify_file(file.path, self._limits(split, model))
                file.check_count(count)
                total += count
        return total

    @contextlib.contextmanager
    def explained_errors(
        self, model: AlbertConfig | None = None
    ) -> Iterator[None]:
        """Explains TensorFlow's errors in reading a `dataset`.

        They do not say which file is at fault, so all files are verified.

        Raises:
          InputError: if a file or record is invalid; the message names it.
        """
        try:
            yield
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            text = str(error)
            if (
                isinstance(error, (tf.errors.DataLossError, UnicodeDecodeError))
                or MISCOUNTED.search(text)
                or any(reason in text for reason in BAD_RECORDS)
            ):
                self.verify(model)
            raise


def open_records(
    patterns: PathPatterns, split: str = "train", *, heldout: bool = False
) -> Records:
    """Finds record files and checks that they can be read together.

    One file of each manifest is inspected, and every file without a manifest.

    Args:
      patterns: folders of `create_pretraining_data`, record files or globs,
        comma-separated or a list; or the corpora of a mixture, each as
        NAME=WEIGHT:PATTERN.
      split: the split to read from folders, "train" or "heldout".
      heldout: also open the held-out split, if the first folder has one.

    Raises:
      InputError: if a pattern matches nothing; a folder has no manifest or no
        such split; a file is missing, damaged, or does not have the size in its
        manifest; there are no records; or records differ in size.
    """
    if split not in SPLITS:
        raise InputError(f"split={split!r} must be one of {', '.join(SPLITS)}")
    any_in = functools.cache(functools.partial(find_manifest, mixtures=True))
    manifest_in = functools.cache(find_manifest)
    corpora = find_corpora(patterns, any_in)
    files = find_splits(patterns, corpora, split, heldout, manifest_in)
    check_one_vocabulary(itertools.chain(*files.values()))
    samples: dict[str, Sample] = {}
    for split_files in files.values():
        check_one_format(split_files)
        samples |= sample_files(split_files)
    manifest, lengths = files[split][0].manifest, common_lengths(samples)
    return Records(split, files, samples, *lengths, manifest, corpora)


def pretraining_dataset(
    patterns: PathPatterns,
    *,
    global_batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    training: bool = True,
    split: str = "train",
) -> tf.data.Dataset:
    """Reads batches of pretraining records.

    Training datasets are infinite. Each epoch has every record once, in an
    order that depends only on (seed, epoch): files are shuffled and
    interleaved, and buffers of `SHUFFLE_BUFFER` records are shuffled. Batches
    may span epochs, so no record is dropped. Batch k is the same whether a run
    started at step 0 or was resumed at step k: steps before `start_step` are
    not parsed, and files that are skipped completely are not opened. The global
    random seed has no influence.

    Text records (`masking="dynamic"`) are split, swapped and masked while they
    are read, differently in every epoch.

    Evaluation datasets (`training=False`) are one pass in the order of files
    and records; the last batch may be smaller.

    Args:
      patterns: files or folders of `create_pretraining_data`; see
        `open_records`. Google's original records can be read, too.
      global_batch_size: rows per batch, over all replicas.
      seed: seed of the order of the records in training.
      start_step: number of batches to skip.
      training: whether to train or to evaluate.
      split: "train" or "heldout", if `patterns` is a folder.

    Returns:
      Dataset of dicts: int32 `input_word_ids`, `input_mask`, `input_type_ids`
      `[batch, seq]`, `masked_lm_positions`, `masked_lm_ids` `[batch,
      predictions]`, `sentence_order_labels` `[batch]` (1 = swapped), float32
      `masked_lm_weights` `[batch, predictions]`; all shapes are static in
      training. With `pack`, those of `packed_rows.join_rows`.

    Raises:
      InputError: see `open_records`.
    """
    if start_step < 0:
        raise InputError(f"start_step={start_step} must be at least 0")
    return open_records(patterns, split).dataset(
        global_batch_size,
        seed=seed,
        first_example=start_step * global_batch_size,
        training=training,
    )
