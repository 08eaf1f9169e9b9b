"""Datasets from TensorFlow Datasets and Hugging Face Datasets."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from albert_tf.errors import InputError
from albert_tf.optional_packages import import_package


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetRows:
    """Rows of a dataset.

    Attributes:
      name: name of the dataset, for error messages.
      rows: the rows; their values are Python's or NumPy's.
      classes: names of the label's classes; None if it has none.
      files: the files that contain them, and perhaps other splits.
    """

    name: str
    rows: Iterable[Mapping[str, Any]]
    classes: Sequence[str] | None = None
    files: tuple[pathlib.Path, ...] = ()


def numbered_rows(dataset: DatasetRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the location and the values of each row, as Python values."""
    for number, row in enumerate(dataset.rows):
        yield f"{dataset.name}, row {number}", _to_python(row)


def _to_python(value: Any) -> Any:
    """Converts NumPy values, ragged tensors and bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {key: _to_python(x) for key, x in value.items()}
    for method in ("tolist", "to_list"):
        if hasattr(value, method):
            return _to_python(getattr(value, method)())
    if isinstance(value, (list, tuple)):
        return [_to_python(x) for x in value]
    return value


def field(dataset: DatasetRows, row: Mapping[str, Any], name: str) -> Any:
    """Returns a field of a row, or raises an `InputError`."""
    if name not in row:
        raise InputError(
            f"{dataset.name}: no field {name!r} among {', '.join(row)}; give "
            "another dataset, or the task's files"
        )
    return row[name]


SOURCES = ("tfds", "huggingface")

# Task -> names in TensorFlow Datasets; paths and configurations on the Hugging
# Face Hub. The groups of RACE are separate datasets.
_GLUE = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
_TFDS = {name: (f"glue/{name}",) for name in (*_GLUE, "ax")} | {
    "squad1.1": ("squad/v1.1",),
    "squad2.0": ("squad/v2.0",),
    "race": tuple(f"race/{group}" for group in ("middle", "high")),
}
_HUGGING_FACE: dict[str, tuple[tuple[str, str | None], ...]] = {
    **{name: (("nyu-mll/glue", name),) for name in (*_GLUE, "ax")},
    "squad1.1": (("rajpurkar/squad", None),),
    "squad2.0": (("rajpurkar/squad_v2", None),),
    "race": tuple(("ehovy/race", group) for group in ("middle", "high")),
}
_PACKAGES = {"tfds": "tensorflow_datasets", "huggingface": "datasets"}
# Marks a folder of splits that `DatasetDict.save_to_disk` wrote.
_SAVED = "dataset_dict.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedSplit:
    """A split of a task's dataset in a library.

    It is loaded, and downloaded if necessary, when its files or rows are first
    used. Rows have the library's order. Ids of GLUE examples are their indices
    in the files as distributed.

    Attributes:
      source: the library, one of `SOURCES`.
      task: a GLUE task, "squad1.1", "squad2.0" or "race".
      split: "train", "dev", "test", for MNLI "dev_mismatched" or
        "test_mismatched"; or a name of the library, such as "validation". Both
        can be sliced, as in "train[:90%]".
      data: a local folder, instead of the library's default. For "tfds", the
        folder of prepared datasets, which are downloaded to it. For
        "huggingface", the dataset, or a folder with its configurations by name,
        as written by `save_to_disk` or downloaded from the Hub.

    Raises:
      InputError: if there is no such source, task or folder, or the library is
        not installed.
    """

    source: str
    task: str
    split: str
    data: str | os.PathLike[str] | None = None

    def __post_init__(self):
        if self.source not in SOURCES:
            raise InputError(
                f"from={self.source!r} must be one of {', '.join(SOURCES)}"
            )
        if self.task not in _TFDS:
            raise InputError(
                f"from={self.source!r} does not have task={self.task!r}, only "
                f"{', '.join(_TFDS)}; give its files"
            )
        if self.data is not None and not os.path.isdir(self.data):
            raise InputError(f"data={os.fspath(self.data)}: no such folder")
        self._library()  # Raises if it is not installed.

    def __str__(self) -> str:
        names = ", ".join(name for name, _ in self._datasets())
        return f"{self.source} {names}, split {self.library_split}"

    @property
    def library_split(self) -> str:
        """Name of the split in the library."""
        name, bracket, part = self.split.partition("[")
        kind, _, rest = name.partition("_")
        if self.task == "mnli" and kind != "train":
            rest = rest or "matched"
        if kind == "dev" and (self.task, self.source) != ("race", "tfds"):
            kind = "validation"
        return (f"{kind}_{rest}" if rest else kind) + bracket + part

    @property
    def files(self) -> list[pathlib.Path]:
        """Files of the datasets; they may contain other splits, too."""
        return [file for dataset in self.rows for file in dataset.files]

    def _datasets(self) -> Sequence[tuple[str, Any]]:
        """Returns names of the datasets for messages and for the library."""
        if self.source == "tfds":
            return [(name, name) for name in _TFDS[self.task]]
        root = os.fspath(self.data or "")
        return [
            (
                "/".join(filter(None, (root or path, configuration))),
                (path, configuration),
            )
            for path, configuration in _HUGGING_FACE[self.task]
        ]

    @functools.cached_property
    def rows(self) -> list[DatasetRows]:
        """Rows of each of the task's datasets."""
        library = self._library()
        load = self._load_tfds if self.source == "tfds" else self._load_hub
        loaded = []
        for display_name, name in self._datasets():
            location = f"{self.source} {display_name}, split "
            location += self.library_split
            try:
                rows, label, files = load(library, name)
                loaded.append(
                    DatasetRows(
                        name=location,
                        rows=rows,
                        classes=getattr(label, "names", None),
                        files=tuple(map(pathlib.Path, files)),
                    )
                )
            except Exception as error:  # of the network, disk or library
                reason = (str(error).strip().splitlines() or [repr(error)])[0]
                raise InputError(
                    f"{location}: could not be loaded ({type(error).__name__}: "
                    f"{reason[:200]}); give the task's files"
                ) from error
        return loaded

    def _library(self) -> ModuleType:
        purpose = f"datasets with from={self.source!r}"
        return import_package(_PACKAGES[self.source], purpose)

    def _load_tfds(self, tfds: ModuleType, name: str) -> tuple[Any, Any, Any]:
        """Returns the rows, the label's feature and the files of a dataset."""
        data, info = tfds.load(
            name,
            split=self.library_split,
            data_dir=self.data,
            with_info=True,
            shuffle_files=False,
        )
        label = dict(info.features.items()).get("label")
        files = info.splits[self.library_split].filepaths
        return tfds.as_numpy(data), label, files

    def _load_hub(
        self, datasets: ModuleType, name: tuple[str, str | None]
    ) -> tuple[Any, Any, Any]:
        """Returns the same as `_load_tfds`."""
        _, configuration = name
        if self.data is None:
            data = datasets.load_dataset(*name, split=self.library_split)
        else:
            data = self._load_folder(datasets, configuration)
        files = sorted({file["filename"] for file in data.cache_files})
        return data, data.features.get("label"), files

    def _load_folder(
        self, datasets: ModuleType, configuration: str | None
    ) -> Any:
        """Loads a split from a local folder."""
        assert self.data is not None
        root = pathlib.Path(self.data)
        subfolder = root / configuration if configuration else root
        for folder in (subfolder, root):
            if (folder / _SAVED).exists():
                splits = datasets.load_from_disk(str(folder))
                if self.library_split not in splits:
                    raise LookupError(f"it has only {', '.join(splits)}")
                return splits[self.library_split]
        # README.md of a Hub dataset maps configurations to files.
        if configuration and (root / "README.md").exists():
            return datasets.load_dataset(
                str(root), configuration, split=self.library_split
            )
        folder = subfolder if subfolder.is_dir() else root
        return datasets.load_dataset(str(folder), split=self.library_split)
