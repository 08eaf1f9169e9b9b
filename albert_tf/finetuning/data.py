"""Training and development examples of a run, and their features."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.library_datasets import NamedSplit
from albert_tf.finetuning.task_config import split_path
from albert_tf.finetuning.task_type import TaskType
from albert_tf.input_files import sha256

_logger = logging.getLogger(__name__)

# Version of the features, incremented when the same examples give other ones,
# with which a run cannot be resumed.
_FEATURES_VERSION = 1

# The source of examples that are read from files, not from a dataset library.
FILES = "files"

# A file, a folder, or a split of a dataset from a library.
Source = str | os.PathLike[str] | NamedSplit


def find_split(
    task_type: TaskType,
    split: str,
    *,
    source: str = FILES,
    data: str | os.PathLike[str] | None = None,
) -> Source:
    """Finds a split of a task, such as "train", "dev" or "test".

    Args:
      source: `FILES`, or a library in `library_datasets.SOURCES`.
      data: with `FILES`, the task's folder as distributed, or its parent
        folder; otherwise see `NamedSplit`.

    Raises:
      InputError: if the task has no such split, or it does not exist.
    """
    name = task_type.task_config.name
    if source != FILES:
        return NamedSplit(source=source, task=name, split=split, data=data)
    if data is None:
        raise InputError(f"data: give the folder with the files of {name}")
    return split_path(task_type.task_config, data, split)


def read_examples(
    task_type: TaskType, sources: Sequence[Source], **settings: Any
) -> Iterator[Any]:
    """Reads the examples of all sources; see `TaskType.read_examples`."""
    # Called at once, as task types may check a source before they read it.
    examples = [
        task_type.read_examples(
            source.rows if isinstance(source, NamedSplit) else source,
            **settings,
        )
        for source in sources
    ]
    return itertools.chain.from_iterable(examples)


def files_below(sources: Sequence[Source]) -> list[pathlib.Path]:
    """Lists the files of sources, which must exist, and of their folders."""
    files: list[pathlib.Path] = []
    for source in sources:
        if isinstance(source, NamedSplit):
            files += source.files
            continue
        path = pathlib.Path(source)
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        if path.is_dir():
            files += sorted(x for x in path.rglob("*") if x.is_file())
        else:
            files.append(path)
    return files


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """Training and development data of a run.

    Attributes:
      dev: what selects the best checkpoint; if empty, the last one is used.
      on_bad_example: "stop" or "skip", see `BadExamples`.
    """

    train: Sequence[Source]
    dev: Sequence[Source] = ()
    on_bad_example: str = "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskData:
    """Tokenized data of a run.

    Attributes:
      train: training features with labels.
      dev: development examples with labels; may be empty.
      dev_features: features of `dev` without labels; None if it is empty.
      identity: JSON values that must be equal when a run is resumed.
    """

    train: Features
    dev: Sequence[Any]
    dev_features: Features | None
    identity: dict[str, Any]


def load_data(task_type: TaskType, files: TaskFiles) -> TaskData:
    """Reads and tokenizes the examples of a run.

    Skipped examples are counted and listed on stderr.

    Raises:
      InputError: if a file cannot be read, an example cannot be used, or no
        example is left.
    """
    identity = _identity(task_type, files.train, files.on_bad_example)
    bad = BadExamples(files.on_bad_example)
    examples = read_examples(
        task_type, files.train, bad=bad, labelled=True, training=True
    )
    train = task_type.features(examples, labelled=True)
    _print_skipped(bad.summary(), files.train)
    if not train.num_examples:
        raise InputError(
            f"{', '.join(map(str, files.train))}: no examples to train on"
        )
    dev, dev_features = [], None
    if files.dev:
        dev = labelled_examples(task_type, files.dev, files.on_bad_example)
        dev_features = task_type.features(dev, labelled=False)
    # The development set selects the weights that are kept.
    identity["dev_files"] = _digests(files.dev)
    trained = _plain_digests(files.train, identity["files"]).values()
    tested = _plain_digests(files.dev, identity["dev_files"])
    for path, digest in tested.items():
        if digest in trained:
            _logger.warning(
                "%s: the model is also trained on these examples, so scores "
                "say nothing about others; set some examples aside as dev",
                path,
            )
    identity |= {f"dev_{name}": x for name, x in _splits(files.dev).items()}
    return TaskData(
        train=train, dev=dev, dev_features=dev_features, identity=identity
    )


def labelled_examples(
    task_type: TaskType, sources: Sequence[Source], on_bad_example: str = "stop"
) -> list[Any]:
    """Reads labelled examples to score predictions with; see `load_data`."""
    bad = BadExamples(on_bad_example)
    files_below(sources)  # Raises an error if one does not exist.
    examples = [*read_examples(task_type, sources, bad=bad, labelled=True)]
    _print_skipped(bad.summary(), sources)
    if not examples:
        raise InputError(
            f"{', '.join(map(str, sources))}: no examples to score"
        )
    return examples


def _identity(
    task_type: TaskType, sources: Sequence[Source], on_bad_example: str
) -> dict[str, Any]:
    """Returns all that training features depend on, as JSON values."""
    task_config, tokenizer = task_type.task_config, task_type.tokenizer
    return {
        "version": _FEATURES_VERSION,
        "task": task_config.name,
        "tokenizer": {
            "file": tokenizer.file_name,
            "fingerprint": tokenizer.fingerprint,
            **tokenizer.settings,
        },
        "settings": {
            **task_config.identity(),
            "on_bad_example": on_bad_example,
            **_splits(sources),
        },
        "files": _digests(sources),
    }


def _digests(sources: Sequence[Source]) -> list[str]:
    return [sha256(path) for path in files_below(sources)]


def _plain_digests(
    sources: Sequence[Source], digests: Sequence[str]
) -> dict[pathlib.Path, str]:
    """Returns the `_digests` of those sources that are files.

    Folders and datasets also have files that are no examples.
    """
    given = {pathlib.Path(x) for x in sources if not isinstance(x, NamedSplit)}
    pairs = zip(files_below(sources), digests, strict=True)
    return {path: digest for path, digest in pairs if path in given}


def _splits(sources: Sequence[Source]) -> dict[str, Any]:
    """Returns the splits of datasets, whose files may hold several splits."""
    named = [x for x in sources if isinstance(x, NamedSplit)]
    return {"splits": [x.library_split for x in named]} if named else {}


def _print_skipped(skipped: str, sources: Sequence[Source]) -> None:
    if skipped:
        names = ", ".join(map(str, sources))
        print(f"{names}: {skipped}", file=sys.stderr, flush=True)
