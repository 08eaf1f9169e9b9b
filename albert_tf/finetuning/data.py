"""Training and development examples of a run, and their features."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.feature_cache import cache_key, cached
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.library_datasets import NamedSplit
from albert_tf.finetuning.task_type import TaskType

# Where examples come from: files as distributed, or a library of data sets.
FILES = "files"

# A file, a folder if the task has such, or a split of a library's data set.
Source = str | os.PathLike[str] | NamedSplit


def find_split(
    task_type: TaskType,
    split: str,
    *,
    source: str = FILES,
    data: str | os.PathLike[str] | None = None,
) -> Source:
    """Returns what the examples of a split are read from.

    Args:
      task_type: the task.
      split: "train", "dev", "test" or another split of the task.
      source: `FILES`, or one of `library_datasets.SOURCES`.
      data: with `FILES` the task's folder as distributed, or its parent folder;
        otherwise see `NamedSplit`.

    Raises:
      InputError: the task has no such split, or it does not exist.
    """
    name = task_type.task_config.name
    if source != FILES:
        return NamedSplit(source=source, task=name, split=split, data=data)
    if data is None:
        raise InputError(f"data: name the folder of {name}'s files")
    return task_type.find_split(data, split)


def read_examples(
    task_type: TaskType,
    source: Source,
    *,
    bad: BadExamples,
    labelled: bool,
    training: bool = False,
) -> Iterator[Any]:
    """Reads the examples of a file, a folder or a library's data set.

    Args:
      task_type: the task.
      source: what to read.
      bad, labelled, training: see `TaskType.read_examples`.

    Raises:
      InputError: the source cannot be read.
    """
    if isinstance(source, NamedSplit):
        return task_type.read_dataset(
            source.rows, bad=bad, labelled=labelled, training=training
        )
    return task_type.read_examples(
        source, bad=bad, labelled=labelled, training=training
    )


def examples_from_lines(
    task_type: TaskType, lines: Iterable[str], name: str
) -> Iterator[Any]:
    """Makes an example of each line that is not blank.

    Args:
      task_type: the task; see `TaskType.example_from_line`.
      lines: the lines, read one by one.
      name: the stream's name, for errors.

    Raises:
      InputError: a line is not an example of the task.
    """
    for number, line in enumerate(lines):
        if line.strip():
            yield task_type.example_from_line(
                line, str(number), f"{name}:{number + 1}"
            )


def files_below(sources: Sequence[Source]) -> list[pathlib.Path]:
    """Returns the files of sources, those in folders included, in order.

    Raises:
      InputError: one is not there.
    """
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
    """The files, or the splits of a library's data sets, of a run.

    Attributes:
      train: what to train on.
      dev: those that decide which checkpoint is the best; none: the last one
        is taken.
      on_bad_example: see `BadExamples`.
    """

    train: Sequence[Source]
    dev: Sequence[Source] = ()
    on_bad_example: str = "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskData:
    """The data of a run.

    Attributes:
      train: features with labels.
      dev: examples with labels to be scored on; empty: there are none.
      dev_features: their features, without labels.
      identity: what a resume must agree on, as JSON values.
    """

    train: Features
    dev: Sequence[Any]
    dev_features: Features | None
    identity: dict[str, Any]


def load_data(
    task_type: TaskType,
    files: TaskFiles,
    cache_dir: str | os.PathLike[str] | None = None,
) -> TaskData:
    """Reads and tokenizes the examples.

    Skipped examples are counted and listed on stderr, those of cached features
    with the names that their files had when they were read.

    Args:
      task_type: the task.
      files: what to read.
      cache_dir: folder of cached training features; None: no cache.

    Raises:
      InputError: a file cannot be read, an example cannot be used, or there is
        none left.
    """
    key = _key(task_type, files.train, files.on_bad_example)

    def make() -> tuple[Features, str]:
        bad = BadExamples(files.on_bad_example)
        features = task_type.training_features(
            example
            for source in files.train
            for example in read_examples(
                task_type, source, bad=bad, labelled=True, training=True
            )
        )
        return features, bad.summary()

    train, skipped = cached(cache_dir, key, make)
    _tell(skipped, files.train)
    if not train.num_examples:
        raise InputError(
            f"{', '.join(map(str, files.train))}: no example to train on"
        )
    dev, dev_features = [], None
    if files.dev:
        dev = labelled_examples(task_type, files.dev, files.on_bad_example)
        task_type.check_scores(dev)
        dev_features = task_type.prediction_features(dev)
    # The development set decides which weights are the best.
    dev_key = _key(task_type, files.dev, files.on_bad_example)
    identity = {**key, "dev_files": dev_key["files"]}
    identity |= {f"dev_{name}": x for name, x in _splits(files.dev).items()}
    return TaskData(
        train=train, dev=dev, dev_features=dev_features, identity=identity
    )


def labelled_examples(
    task_type: TaskType,
    sources: Sequence[Source],
    on_bad_example: str = "stop",
) -> list[Any]:
    """Returns the examples of some sources, with labels, to be scored on.

    Skipped examples are counted and listed on stderr.

    Args:
      task_type: the task.
      sources: what to read.
      on_bad_example: see `BadExamples`.

    Raises:
      InputError: a file cannot be read, an example cannot be used, or there is
        none left.
    """
    bad = BadExamples(on_bad_example)
    files_below(sources)  # Says so where one is not there.
    examples = [
        example
        for source in sources
        for example in read_examples(task_type, source, bad=bad, labelled=True)
    ]
    _tell(bad.summary(), sources)
    if not examples:
        raise InputError(f"{', '.join(map(str, sources))}: no example to score")
    return examples


def _key(
    task_type: TaskType, sources: Sequence[Source], on_bad_example: str
) -> dict[str, Any]:
    task_config = task_type.task_config
    return cache_key(
        task=task_config.name,
        tokenizer=task_type.tokenizer,
        settings={
            **task_config.identity(),
            "on_bad_example": on_bad_example,
            **_splits(sources),
        },
        files=files_below(sources),
    )


def _splits(sources: Sequence[Source]) -> dict[str, Any]:
    """Returns the splits of libraries: their files may have others, too."""
    named = [each for each in sources if isinstance(each, NamedSplit)]
    return {"splits": [each.their_split for each in named]} if named else {}


def _tell(skipped: str, sources: Sequence[Source]) -> None:
    if skipped:
        names = ", ".join(map(str, sources))
        print(f"{names}: {skipped}", file=sys.stderr, flush=True)
