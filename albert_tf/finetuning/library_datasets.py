"""Data sets by name, through TensorFlow Datasets or Hugging Face's library."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetRows:
    """The rows of a data set.

    Attributes:
      name: where they are from, for messages.
      rows: their values are Python's or NumPy's.
      classes: what the numbers of labels mean; None: it does not say.
    """

    name: str
    rows: Iterable[Mapping[str, Any]]
    classes: Sequence[str] | None = None


def numbered_rows(part: DatasetRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields locations and rows, whose values are Python's."""
    for number, row in enumerate(part.rows):
        yield f"{part.name}, row {number}", _plain(row)


def _plain(value: Any) -> Any:
    """Returns NumPy's values, ragged tensors and bytes as Python's."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    for to_lists in ("tolist", "to_list"):
        if hasattr(value, to_lists):
            return _plain(getattr(value, to_lists)())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def field(part: DatasetRows, row: Mapping[str, Any], name: str) -> Any:
    """Returns a field of a row.

    Raises:
      InputError: the row has no such field.
    """
    if name not in row:
        raise InputError(
            f"{part.name}: has no field {name!r}, but {', '.join(row)}; name "
            "another data set, or the task's files"
        )
    return row[name]


SOURCES = ("tfds", "huggingface")

# Task -> names in TensorFlow Datasets; and paths and configurations in Hugging
# Face's hub. RACE's groups are data sets of their own.
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
_INSTALL = {
    "tfds": (
        "tensorflow_datasets",
        "pip install tensorflow-datasets importlib_resources",
    ),
    "huggingface": ("datasets", "pip install datasets"),
}
# What `save_to_disk` of Hugging Face's library leaves in a folder of splits.
_SAVED = "dataset_dict.json"


@dataclasses.dataclass(frozen=True)
class _Opened:
    """A data set of a library: its rows, and the files they are in."""

    rows: DatasetRows
    files: tuple[pathlib.Path, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedSplit:
    """A split of a task's data set, by its name in a library.

    It is opened, and downloaded if need be, when its files or its examples are
    first asked for; the order of these is the library's. Ids of GLUE's examples
    are their numbers in the files as distributed.

    Attributes:
      source: the library, one of `SOURCES`.
      task: of GLUE, "squad1.1", "squad2.0" or "race".
      split: "train", "dev", "test", or with MNLI "dev_mismatched" or
        "test_mismatched"; or as the library has it, such as "validation", and
        parts of either, such as "train[:90%]".
      data: a local folder. With "tfds" where its prepared data sets are, or are
        put, without it the library's own; with "huggingface" the data set, or
        the folder that has each of its configurations by name, instead of the
        one on the hub: as `save_to_disk` of its splits, or the hub, has it.

    Raises:
      InputError: another task or source, the folder is not there, or the
        library is not installed.
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
                f"{', '.join(_TFDS)}; name its files"
            )
        if self.data is not None and not os.path.isdir(self.data):
            raise InputError(f"data={os.fspath(self.data)}: no such folder")
        package, command = _INSTALL[self.source]
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"from={self.source!r} needs the package {package}: {command}"
            )

    def __str__(self) -> str:
        names = ", ".join(name for name, _ in self._data_sets())
        return f"{self.source} {names}, split {self.their_split}"

    @property
    def their_split(self) -> str:
        """The name that the library has for the split."""
        name, bracket, part = self.split.partition("[")
        kind, _, rest = name.partition("_")
        if self.task == "mnli" and kind != "train":
            rest = rest or "matched"
        if kind == "dev" and (self.task, self.source) != ("race", "tfds"):
            kind = "validation"
        return (f"{kind}_{rest}" if rest else kind) + bracket + part

    @property
    def files(self) -> list[pathlib.Path]:
        """The library's files, which have this split and perhaps others.

        Raises:
          InputError: the library cannot get the data set, or has none such.
        """
        return [file for opened in self._opened for file in opened.files]

    @property
    def rows(self) -> list[DatasetRows]:
        """The rows of each of the task's data sets.

        Raises:
          InputError: see `files`.
        """
        return [opened.rows for opened in self._opened]

    def _data_sets(self) -> Sequence[tuple[str, Any]]:
        """Returns what messages call the data sets, and what libraries do."""
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
    def _opened(self) -> list[_Opened]:
        library = importlib.import_module(_INSTALL[self.source][0])
        load = self._load_tfds if self.source == "tfds" else self._load_hub
        found = []
        for shown, name in self._data_sets():
            where = f"{self.source} {shown}, split {self.their_split}"
            try:
                found.append(load(library, name, where))
            except Exception as error:  # of the network, disk or library
                reason = (str(error).strip().splitlines() or [repr(error)])[0]
                raise InputError(
                    f"{where}: could not be loaded ({type(error).__name__}: "
                    f"{reason[:200]}); name the task's files"
                ) from error
        return found

    def _load_tfds(self, tfds: ModuleType, name: str, where: str) -> _Opened:
        data, info = tfds.load(
            name,
            split=self.their_split,
            data_dir=self.data,
            with_info=True,
            # The order of the examples is that of the files.
            shuffle_files=False,
        )
        label = dict(info.features.items()).get("label")
        files = info.splits[self.their_split].filepaths
        return _Opened(
            DatasetRows(
                name=where,
                rows=tfds.as_numpy(data),
                classes=getattr(label, "names", None),
            ),
            tuple(map(pathlib.Path, files)),
        )

    def _load_hub(
        self, datasets: ModuleType, name: tuple[str, str | None], where: str
    ) -> _Opened:
        path, configuration = name
        if self.data is None:
            data = datasets.load_dataset(*name, split=self.their_split)
        else:
            data = self._load_folder(datasets, configuration)
        label = data.features.get("label")
        files = sorted({file["filename"] for file in data.cache_files})
        return _Opened(
            DatasetRows(
                name=where, rows=data, classes=getattr(label, "names", None)
            ),
            tuple(map(pathlib.Path, files)),
        )

    def _load_folder(
        self, datasets: ModuleType, configuration: str | None
    ) -> Any:
        """Loads a split from a folder, whose files have known endings."""
        assert self.data is not None
        root = pathlib.Path(self.data)
        own = root / configuration if configuration else root
        for folder in (own, root):
            if (folder / _SAVED).exists():
                splits = datasets.load_from_disk(str(folder))
                if self.their_split not in splits:
                    raise LookupError(f"it has only {', '.join(splits)}")
                return splits[self.their_split]
        # The hub's folders say in README.md which files a configuration has.
        if configuration and (root / "README.md").exists():
            return datasets.load_dataset(
                str(root), configuration, split=self.their_split
            )
        folder = own if own.is_dir() else root
        return datasets.load_dataset(str(folder), split=self.their_split)
