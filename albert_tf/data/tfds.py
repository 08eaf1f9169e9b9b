"""Data sets of TensorFlow Datasets, as texts for pretraining."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import pathlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import Path, is_remote
from albert_tf.input_files import decode, exists
from albert_tf.optional_packages import import_package

# Prefix of inputs that name a data set. Its files are the record files that the
# library has prepared; `dataset_info.json` in the folder says how to read them.
PREFIX = "tfds:"
_RECORD_FILE = re.compile(r"[-.]\w+-\d{5,}-of-\d{5,}$")


def find_tfds_files(
    name: str, data_dir: str | None = None
) -> list[pathlib.Path | str]:
    """Finds the record files of a split, in the order of its examples.

    A data set that is not in the folder is downloaded.

    Args:
      name: such as `tfds:wikipedia/20230601.simple`, or with a split other than
        "train", `tfds:imdb_reviews#unsupervised`.
      data_dir: folder of the data sets; None for the environment variable
        TFDS_DATA_DIR or the library's default.

    Raises:
      InputError: if the library is not installed, the data set cannot be
        loaded, or the split does not exist.
    """
    data_set, _, split = name.removeprefix(PREFIX).partition("#")
    split = split or "train"
    tfds = _import_tfds()
    with _explain_errors(name, "could not be loaded"):
        builder = tfds.builder(data_set, data_dir=data_dir)
        if not builder.is_prepared():
            builder.download_and_prepare()
        splits = builder.info.splits
    if split not in splits or not splits[split].num_examples:
        found = [x for x in splits if splits[x].num_examples]
        raise InputError(
            f"input {name}: the split {split!r} has no examples; choose one of "
            f"{', '.join(found) or 'none'} by {PREFIX}{data_set}#SPLIT"
        )
    return [
        path if is_remote(path) else pathlib.Path(path)
        for path in map(os.fspath, splits[split].filepaths)
    ]


def is_tfds_file(path: Path) -> bool:
    """Returns whether a file is a record file of a data set."""
    folder, name = os.path.split(os.fspath(path))
    return bool(_RECORD_FILE.search(name)) and all(
        exists(os.path.join(folder, x))
        for x in ("dataset_info.json", "features.json")
    )


def read_tfds_texts(
    path: Path,
    text_field: str,
    encoding_errors: str,
    counts: collections.Counter[str],
) -> Iterator[str]:
    """Yields the texts of a record file; see `read_documents`.

    Raises:
      InputError: if the file cannot be read, or has no such field with text.
    """
    tfds = _import_tfds()
    folder, name = os.path.split(os.fspath(path))
    with _explain_errors(path, "could not be read"):
        info = _load_info(folder)
    if text_field not in info.features:
        raise InputError(
            f"{path}: has no field {text_field!r} (its fields: "
            f"{', '.join(info.features)}); choose another one with text_field"
        )
    field = info.features[text_field]
    if not isinstance(field, tfds.features.Text):
        raise InputError(
            f"{path}: the field {text_field!r} is not text, but "
            f"{type(field).__name__}; choose another one with text_field"
        )
    examples = _read_instruction(tfds, info, name, path)
    with _explain_errors(path, "could not be read"):
        builder = tfds.builder_from_directory(folder)
        if info.file_format == tfds.core.FileFormat.ARRAY_RECORD:
            rows = iter(builder.as_data_source(split=examples))
        else:
            data = builder.as_dataset(
                split=examples,
                shuffle_files=False,
                # Do not decode other fields, such as images.
                decoders=tfds.decode.PartialDecoding({text_field: True}),
                read_config=tfds.ReadConfig(try_autocache=False),
            )
            rows = iter(tfds.as_numpy(data))
    for number in itertools.count(1):
        with _explain_errors(path, "could not be read"):
            row = next(rows, None)
        if row is None:
            return
        try:
            text = decode(row[text_field], encoding_errors, counts)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: example {number} of the file: byte "
                f"{error.start + 1} is not UTF-8; read it with "
                "encoding_errors=replace"
            ) from None
        yield text


def _import_tfds() -> ModuleType:
    return import_package("tensorflow_datasets", "tfds: inputs")


@functools.lru_cache(maxsize=8)
def _load_info(folder: str) -> Any:
    return _import_tfds().builder_from_directory(folder).info


def _read_instruction(
    tfds: ModuleType, info: Any, name: str, path: Path
) -> Any:
    """Returns the `ReadInstruction` for the examples of a file."""
    for split, described in info.splits.items():
        names = [os.path.basename(x) for x in described.filepaths]
        if name in names:
            ends = list(itertools.accumulate(described.shard_lengths))
            index = names.index(name)
            start = ends[index] - described.shard_lengths[index]
            return tfds.core.ReadInstruction(
                split, from_=start, to=ends[index], unit="abs"
            )
    raise InputError(f"{path}: not listed in the folder's dataset_info.json")


@contextlib.contextmanager
def _explain_errors(path: Path, what: str) -> Iterator[None]:
    """Converts errors of the library to an `InputError` of one line."""
    try:
        yield
    except Exception as error:  # of the network, the disk or the library
        reason = (str(error).strip().splitlines() or [""])[0]
        raise InputError(
            f"input {os.fspath(path)}: {what} by TensorFlow Datasets "
            f"({type(error).__name__}: {reason[:200]}); prepare the data set "
            "where it can be downloaded, and name its folder with data_dir"
        ) from error
