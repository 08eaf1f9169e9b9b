"""The data of a task: where they are, and the examples in them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.conll import read_conll
from albert_tf.data.examples.dream import read_dream
from albert_tf.data.examples.named_sources import NamedSplit
from albert_tf.data.examples.race import read_race
from albert_tf.data.examples.squad import read_squad
from albert_tf.data.examples.text_task import TextTask, read_texts, split_file
from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.description import TaskDescription

# Where data come from: files as they are distributed; a library, by name.
FILES = "files"

# What examples are read from: a file, a folder where the task has such, or a
# split of a library's data set.
Source = str | os.PathLike[str] | NamedSplit


def find_split(
    description: TaskDescription,
    split: str,
    *,
    source: str = FILES,
    data: str | os.PathLike[str] | None = None,
) -> Source:
    """Returns what the examples of a split are read from.

    Args:
      description: of the task.
      split: "train", "dev", "test" or what else the task has.
      source: `FILES`, or one of `named_sources.SOURCES`.
      data: with `FILES` the task's folder as distributed, or the one above it;
        otherwise see `NamedSplit`.

    Raises:
      InputError: the task has no such split, or it is not there.
    """
    if source != FILES:
        return NamedSplit(
            source=source, task=description.name, split=split, data=data
        )
    if data is None:
        raise InputError(f"data: name the folder of {description.name}'s files")
    return split_path(description, data, split)


def split_path(
    description: TaskDescription,
    data_dir: str | os.PathLike[str],
    split: str,
) -> pathlib.Path:
    """Returns the file, or folder, of a split.

    Args:
      description: of the task.
      data_dir: the task's folder as distributed, or the one above it.
      split: "train", "dev", "test" or what else the task has.

    Raises:
      InputError: the task has no such split, or it is not there.
    """
    source = description.source
    if source["reader"] == "texts":
        return split_file(text_task(description), data_dir, split)
    if split not in source["files"]:
        raise InputError(
            f"split={split!r} of {description.name} must be one of "
            f"{', '.join(source['files'])}"
        )
    name = source["files"][split]
    root = pathlib.Path(data_dir)
    for folder in (root / source["folder"], root):
        for path in (folder / name, folder / f"{name}.gz"):
            if path.exists():
                return path
    raise InputError(
        f"{root}: {description.name} lacks {name} (or .gz); name the folder "
        "that has it, or the files themselves"
    )


def read_examples(
    description: TaskDescription,
    source: Source,
    *,
    bad: BadExamples,
    labelled: bool,
    training: bool = False,
) -> Iterator[Any]:
    """Reads the examples of a file, a folder or a library's data set.

    Args:
      description: of the task.
      source: files are as distributed.
      bad: is told of examples that cannot be used.
      labelled: whether labels are read.
      training: whether they are to be learnt from: answers must then be in
        their contexts.

    Yields:
      Examples of the kind of the task.

    Raises:
      InputError: it cannot be read.
    """
    reader = description.source["reader"]
    common = {"bad": bad, "labelled": labelled}
    if isinstance(source, NamedSplit):
        return source.read(**common, need_positions=training)
    if reader == "texts":
        return read_texts(text_task(description), source, **common)
    if reader == "race":
        return read_race(source, **common)
    if reader == "dream":
        return read_dream(source, **common)
    if reader == "conll":
        return read_conll(source, **common)
    return read_squad(
        source,
        **common,
        need_positions=training,
        # 200 of CMRC's answers are not where they are said to be.
        repair_offsets=reader == "cmrc",
    )


def text_task(description: TaskDescription) -> TextTask:
    """Returns how the tables of a task of texts are read."""
    values = {k: x for k, x in description.source.items() if k != "reader"}
    for name in ("labels", "metrics", "lost_header"):
        # JSON has lists only.
        values[name] = values[name] and tuple(values[name])
    return TextTask(**values)


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
