"""Pretraining records: found and checked once, then read as batches."""

from __future__ import annotations

import collections
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
from albert_tf.errors import InputError
from albert_tf.files import PathPatterns
from albert_tf.pretraining.corpora import (
    compute_quotas,
    find_splits,
    group_by_corpus,
)
from albert_tf.pretraining.dynamic_examples import ExampleSettings
from albert_tf.pretraining.manifest import (
    SPLITS,
    find_any_manifest,
    reject_mixture,
)
from albert_tf.pretraining.mixture import Corpus, find_corpora
from albert_tf.pretraining.record_batches import (
    Reading,
    masked_batches,
    text_batches,
)
from albert_tf.pretraining.record_checks import (
    BAD_RECORDS,
    RecordLimits,
    TextLimits,
    verify_file,
)
from albert_tf.pretraining.record_files import (
    RecordFile,
    Sample,
    check_one_format,
    check_one_vocabulary,
    common_lengths,
    sample_files,
)
from albert_tf.pretraining.record_order import GROUP_RECORDS
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.training.input import (
    MISCOUNTED,
    WHOLE,
    HostShare,
    batch_options,
)


@dataclasses.dataclass(frozen=True)
class Records:
    """Pretraining records of one size, made by `open_records`.

    Attributes:
      split: the split to read, "train" or "heldout".
      files: split -> its files, each once.
      samples: path -> sizes and largest id of each file that was inspected.
      max_seq_length: tokens of a record.
      max_predictions_per_seq: predictions of a record.
      manifest: manifest of the first file; None for records of other origin.
      corpora: the corpora that training mixes by weight, if there are several.
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
        """What the pairs are for: "sop", "nsp" or "none".

        Records without a manifest are assumed to be for SOP, as Google's are.
        """
        return self._settings.get("sentence_order", "sop")

    @functools.cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer saved with the records; None without a manifest.

        Raises:
          InputError: it is not the one that the records were made with.
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
                    f"the records were made with {made_with[name]}, says their "
                    "manifest; copy the folder again, or make the data again"
                )
        return tokenizer

    @functools.cached_property
    def identity(self) -> str:
        """A hash that tells data sets apart, wherever they are stored."""
        contents = [
            file.manifest or os.path.basename(file.path)
            for file in self.files[self.split]
        ]
        contents += [[corpus.name, corpus.weight] for corpus in self.corpora]
        text = json.dumps(contents, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def check_model(self, model: AlbertConfig) -> None:
        """Checks that a model can read the records.

        Of the values, only those of the files in `samples` are looked at;
        `dataset` checks each batch.

        Raises:
          InputError: the vocabulary or the positions of the model are too few.
        """
        for file in itertools.chain(*self.files.values()):
            if file.manifest is None:
                continue
            pieces = file.manifest["tokenizer"]["vocab_size"]
            if pieces > model.vocab_size:
                raise InputError(
                    f"records {file.path}: made with a vocabulary of {pieces} "
                    f"pieces, more than vocab_size={model.vocab_size}; use "
                    "records and a model of one vocabulary"
                )
        for path, sample in self.samples.items():
            if sample.largest_id >= model.vocab_size:
                raise InputError(
                    f"records {path}: token id {sample.largest_id} is not "
                    f"below vocab_size={model.vocab_size}; use the vocabulary "
                    "of the data"
                )
        if self.max_seq_length > model.max_position_embeddings:
            raise InputError(
                f"records {self.files[self.split][0].path}: "
                f"{self.max_seq_length} tokens a record, more than the model's "
                f"max_position_embeddings={model.max_position_embeddings}"
            )

    def baselines(self, split: str | None = None) -> dict[str, float]:
        """Returns what a model that has learned nothing scores on a split.

        Args:
          split: "train" or "heldout"; None for `self.split`.

        Returns:
          `mlm_unigram_accuracy` (always the most frequent training label) and,
          for pairs, `sop_chance` or `nsp_chance` (always the more frequent
          order); nothing without a manifest that has the split.
        """
        split = split or self.split
        files = self.files.get(split, self.files[self.split])
        manifests = {id(file.manifest): file.manifest for file in files}
        statistics = [
            manifest["splits"][split]
            for manifest in manifests.values()
            if manifest and split in manifest["splits"]
        ]
        if len(statistics) < len(manifests):
            return {}
        accuracies = [each["constant_guess_accuracy"] for each in statistics]
        sizes = [each["counts"]["predictions"] for each in statistics]
        mean = float(np.dot(accuracies, sizes)) / max(1, sum(sizes))
        one = len(statistics) == 1  # Whose own number is exact.
        scores = {"mlm_unigram_accuracy": accuracies[0] if one else mean}
        if self.pair_task != "none":
            labels = collections.Counter()
            for each in statistics:
                # Orders that are drawn in training are even.
                labels.update(each.get("labels", {"0": 1, "1": 1}))
            chance = max(labels.values()) / sum(labels.values())
            scores[f"{self.pair_task}_chance"] = chance
        return scores

    def dataset(
        self,
        global_batch_size: int,
        *,
        seed: int = 0,
        start_step: int = 0,
        first_example: int = 0,
        training: bool = True,
        split: str | None = None,
        model: AlbertConfig | None = None,
        share: HostShare = WHOLE,
    ) -> tf.data.Dataset:
        """Returns batches, or a host's rows of them; see `pretraining_dataset`.

        A record with values that the model cannot be trained on is an error of
        TensorFlow, which `explained_errors` explains.
        """
        for name, value, least in (
            ("global_batch_size", global_batch_size, 1),
            ("start_step", start_step, 0),
        ):
            if value < least:
                raise InputError(f"{name}={value} must be at least {least}")
        split = split or self.split
        limits = self._limits(split, model)
        reading = Reading(
            [*group_by_corpus(self.files[split]).values()],
            compute_quotas(self.corpora, GROUP_RECORDS),
            global_batch_size,
            seed,
            first_example + start_step * global_batch_size,
            training,
            share,
        )
        if training:
            reading.check_groups()
        if isinstance(limits, TextLimits):
            assert self.manifest is not None  # Text is read only with one.
            assert self.tokenizer is not None
            settings = ExampleSettings.from_manifest(
                self.manifest["settings"], self.tokenizer
            )
            batches = text_batches(reading, limits, settings)
        else:
            batches = masked_batches(reading, limits)
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
            least, num_special = (1, 2) if self.pair_task == "none" else (2, 3)
            most = self.max_seq_length - num_special
            sequences = self._settings.get("max_sequences_per_row", 0)
            return TextLimits(least, most, vocab_size, sequences)
        return RecordLimits(
            self.max_seq_length,
            self.max_predictions_per_seq,
            vocab_size,
            model.type_vocab_size if model else 2,
            self._settings.get("masked_lm_prob") != 0,
        )

    def verify(self, model: AlbertConfig | None = None) -> int:
        """Reads all files to their ends, and verifies checksums and values.

        Returns:
          The number of records.

        Raises:
          InputError: names the first file that is damaged or has not as many
            records as were counted, or the first record that has a value out of
            bounds.
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
        """Explains errors of `dataset`.

        TensorFlow does not say which file a running dataset failed on.

        Raises:
          InputError: names the file and the record.
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

    Files that a manifest lists have the size that it says, and are alike: one
    of them is inspected. Of all others, each is.

    Args:
      patterns: folders of `create_pretraining_data`, record files or glob
        patterns, separated by commas or as a list; or corpora that training
        mixes, each as NAME=WEIGHT:PATTERN.
      split: the split of folders to read, "train" or "heldout".
      heldout: open the held-out split of the folders as well, if the first of
        them has one.

    Raises:
      InputError: nothing matches; a folder has no manifest or no such split; a
        file is missing, damaged, or has another size than its manifest says;
        there is no record; or records differ in size.
    """
    if split not in SPLITS:
        raise InputError(f"split={split!r} must be one of {', '.join(SPLITS)}")
    any_in = functools.cache(find_any_manifest)  # Each is read once.

    def manifest_in(folder: str) -> dict[str, Any] | None:
        return reject_mixture(any_in(folder), folder)

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

    Training is endless. Each epoch has every record once, in an order that
    follows from (seed, epoch): files are shuffled and interleaved, and buffers
    of `SHUFFLE_BUFFER` records are shuffled. Epochs follow each other without a
    gap: the batch at the end of one has records of the next, so none is
    skipped. Batch k is thus the same whether a run began at step 0 or resumed
    at k. The global random seed has no influence.

    Records of text (`masking="dynamic"`) are split, swapped and masked here, in
    every epoch anew; the draws follow from (seed, epoch) and the place in it.

    Evaluation is one pass in the order of files and records; the last batch may
    be smaller.

    Args:
      patterns: files or folders of `create_pretraining_data`; see
        `open_records`. Google's own records are read too.
      global_batch_size: rows of a batch, over all replicas.
      seed: order of the records in training.
      start_step: number of batches to skip. They are not parsed, and files
        that only they have records of are not even opened.
      training: endless and shuffled, or one pass in order.
      split: "train" or "heldout", where `patterns` names a folder.

    Returns:
      Dataset of dicts: int32 `input_word_ids`, `input_mask`, `input_type_ids`
      `[batch, seq]`, `masked_lm_positions`, `masked_lm_ids` `[batch,
      predictions]`, `sentence_order_labels` `[batch]` (1 = swapped), float32
      `masked_lm_weights` `[batch, predictions]`; all shapes are static in
      training. With `pack`, those of `packed_rows.join_rows`.

    Raises:
      InputError: see `open_records`.
    """
    return open_records(patterns, split).dataset(
        global_batch_size, seed=seed, start_step=start_step, training=training
    )
