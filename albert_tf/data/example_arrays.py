"""Pretraining examples as arrays, for programs without TensorFlow."""

from __future__ import annotations

import dataclasses
import os
import pathlib

import numpy as np

from albert_tf.errors import InputError
from albert_tf.input_files import read_json
from albert_tf.settings import check_settings, described, setting

MANIFEST = "examples.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertDataConfig:
    """Settings of the conversion of records: flags of `albert convert-data`."""

    input: str = dataclasses.field(
        metadata=described("Records: a folder made by create-data, or globs.")
    )
    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Folder to create.")
    )
    num_epochs: int = setting(
        1,
        "Number of passes over the records, each with masks and sentence "
        "orders of its own if the records are dynamic.",
        bounds="[1, 10000]",
    )
    seed: int = setting(
        0,
        "Seed of the order, masks and sentence orders: the examples are those "
        "of `albert pretrain` with this seed, in the same order.",
        bounds=f"[0, {2**31})",
    )
    overwrite: bool = setting(False, "Replace an earlier result.")

    def __post_init__(self) -> None:
        check_settings(self)


class ExampleArrays:
    """Batches of a split of a folder of `convert_records`, without TensorFlow.

    Attributes:
      manifest: the content of `examples.json`.
      num_examples: number of examples.

    Raises:
      InputError: if there is no such folder or split.
    """

    def __init__(self, folder: str | os.PathLike[str], split: str = "train"):
        folder = pathlib.Path(folder)
        self.manifest = read_json(folder / MANIFEST)
        if split not in self.manifest.get("splits", {}):
            raise InputError(f"{folder} has no {split} examples")
        entry = self.manifest["splits"][split]
        self.num_examples: int = entry["examples"]
        self._constants = {
            name: np.array(value) for name, value in entry["constants"].items()
        }
        self._arrays = {
            path.stem: np.load(path, mmap_mode="r")
            for path in sorted((folder / split).glob("*.npy"))
        }

    def batch(self, number: int, size: int) -> dict[str, np.ndarray]:
        """Returns batch `number` of `size` examples.

        Batches continue with the first examples after the last ones.

        Returns:
          The features of `pretraining_dataset`, `[size, ...]`, in int32 and
          float32.
        """
        rows = np.arange(number * size, (number + 1) * size) % self.num_examples
        features = {
            name: np.broadcast_to(value, (size, *value.shape))
            for name, value in self._constants.items()
        } | {name: array[rows] for name, array in self._arrays.items()}
        lengths = features.pop("lengths")
        columns = np.arange(self.manifest["max_seq_length"])
        features["input_mask"] = columns < lengths[:, None]
        return {
            name: value.astype(
                np.float32 if name.endswith("weights") else np.int32
            )
            for name, value in features.items()
        }
