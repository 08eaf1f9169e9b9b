"""Conversion of pretraining records to arrays."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

from albert_tf.data.example_arrays import MANIFEST, ConvertDataConfig
from albert_tf.data.records import Records, open_records
from albert_tf.errors import InputError
from albert_tf.files import writing
from albert_tf.folders import new_folder
from albert_tf.text.tokenizer_files import tokenizer_files

# Examples that are converted at a time.
_BATCH = 1024


def convert_records(config: ConvertDataConfig) -> dict[str, Any]:
    """Writes the examples of records as arrays.

    The folder has `train/FEATURE.npy` and, if there are held-out records,
    `heldout/FEATURE.npy`, `[examples, ...]`, for the features of
    `pretraining_dataset`. Features that are the same in all examples are in
    `examples.json` instead, whose content is returned, and `input_mask` is
    stored as `lengths`, `[examples]`. Token ids are uint16 if the vocabulary
    has at most 65,536 pieces. The tokenizer's files are beside them.

    Raises:
      InputError: if the records cannot be read or have no manifest, or the
        folder exists.
    """
    records = open_records(config.input, heldout=True)
    if records.manifest is None or records.tokenizer is None:
        raise InputError(
            f"{config.input}: records without a manifest; make them with "
            "create-data"
        )
    manifest: dict[str, Any] = {
        "max_seq_length": records.max_seq_length,
        "max_predictions_per_seq": records.max_predictions_per_seq,
        "pair_task": records.pair_task,
        "vocab_size": records.tokenizer.vocab_size,
        "mask_id": records.tokenizer.mask_id,
        "seed": config.seed,
        "splits": {},
    }
    with new_folder(config.output, config.overwrite, MANIFEST) as folder:
        for split in records.files:
            count = sum(file.num_records for file in records.files[split])
            if split == "train":
                count *= config.num_epochs
            with records.explained_errors():
                manifest["splits"][split] = _write_split(
                    records, split, count, folder / split, config.seed
                )
        for name, content in tokenizer_files(records.tokenizer).items():
            (folder / name).write_bytes(content)
        text = json.dumps(manifest, indent=2) + "\n"
        (folder / MANIFEST).write_text(text)
    return manifest


def _write_split(
    records: Records, split: str, count: int, folder: pathlib.Path, seed: int
) -> dict[str, Any]:
    """Writes the arrays of a split; returns its entry in the manifest."""
    assert records.tokenizer is not None
    vocab_size = records.tokenizer.vocab_size
    folder.mkdir()
    dataset = records.dataset(
        _BATCH, seed=seed, training=split == "train", split=split
    )
    files: dict[str, np.memmap] = {}
    # Feature -> its value in every example so far.
    constants: dict[str, np.ndarray] = {}
    done = 0
    for batch in dataset.as_numpy_iterator():
        batch = _compact(batch, vocab_size)
        size = min(count - done, len(batch["lengths"]))
        for name, values in batch.items():
            if done == 0:
                constants[name] = values[0]
            if name in constants:
                if (values[:size] == constants[name]).all():
                    continue
                # It varies: store what was equal so far.
                shape = (count, *values.shape[1:])
                files[name] = _new_array(folder / name, values.dtype, shape)
                files[name][:done] = constants.pop(name)
            files[name][done : done + size] = values[:size]
        done += size
        if done == count:
            break
    for array in files.values():
        array.flush()
    return {
        "examples": done,
        "constants": {name: x.tolist() for name, x in constants.items()},
    }


def _new_array(
    path: pathlib.Path, dtype: np.dtype, shape: tuple[int, ...]
) -> np.memmap:
    """Returns an array of a new file, whose space on the disk is allocated.

    Writing to a mapped file without space would end the process.
    """
    path = path.with_suffix(".npy")
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # macOS has none.
        with writing(path, array.nbytes), open(path, "rb+") as file:
            os.posix_fallocate(file.fileno(), 0, array.offset + array.nbytes)
    return array


def _compact(
    batch: dict[str, np.ndarray], vocab_size: int
) -> dict[str, np.ndarray]:
    """Returns a batch in small dtypes, with `lengths` for `input_mask`."""
    mask = batch["input_mask"]
    ids = np.uint16 if vocab_size <= 2**16 else np.int32
    positions = np.uint16 if mask.shape[1] < 2**16 else np.int32
    dtypes: dict[str, type] = {
        "input_word_ids": ids,
        "masked_lm_ids": ids,
        "masked_lm_positions": positions,
        "sequence_starts": positions,
    }
    if "sequence_starts" in batch and batch["sequence_starts"].shape[1] > 255:
        dtypes["sequence_ids"] = np.uint16
    compact = {"lengths": mask.sum(1).astype(positions)}
    return compact | {
        name: values.astype(dtypes.get(name, np.uint8))
        for name, values in batch.items()
        if name != "input_mask"
    }
