"""Tasks of classifying or scoring texts, as data, and reading their files."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.example import TextExample
from albert_tf.data.examples.tables import read_rows
from albert_tf.data.examples.text_files import text_problem
from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask:
    """What one text or two are classified as, and which files say so.

    Columns are names, or numbers from 0.

    Attributes:
      name: of the task.
      labels: the classes in the order of the model's outputs; None: a number.
      metrics: names of the scores; the first decides which model is best.
      text: column of the text.
      pair: column of the second text; None: there is none.
      label: column of the label; None: no file has labels.
      id: column of an id; None: rows are numbered from 0.
      header: whether files begin with the names of their columns.
      lost_header: see `read_rows`.
      unlabelled: attributes above that differ in files without labels.
      folder: of the files, below that of all tasks.
      files: split -> name of its file.
      other_files: split -> name of a file that may be there instead.
      submissions: split -> name of the file with the predictions for it that
        the benchmark's site asks for.
    """

    name: str
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    text: str | int
    pair: str | int | None = None
    label: str | int | None = None
    id: str | int | None = None
    header: bool = True
    lost_header: tuple[str, ...] = ()
    unlabelled: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    other_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    submissions: Mapping[str, str] = dataclasses.field(default_factory=dict)


def split_file(
    task: TextTask, data_dir: str | os.PathLike[str], split: str
) -> pathlib.Path:
    """Returns the file of a split, which may be packed with gzip.

    Args:
      task: the task.
      data_dir: the folder of all tasks, or the task's own.
      split: "train", "dev" or what else the task has.

    Raises:
      InputError: the task has no such split, or the file is not there.
    """
    if split not in task.files:
        raise InputError(
            f"split={split!r} of {task.name} must be one of "
            f"{', '.join(task.files)}"
        )
    names = [task.files[split], *filter(None, [task.other_files.get(split)])]
    root = pathlib.Path(data_dir)
    for folder in (root / task.folder, root):
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                if path.exists():
                    return path
    raise InputError(
        f"{root / task.folder}: {task.name} lacks {' or '.join(names)} (or "
        ".gz); name the folder that has it"
    )


def read_texts(
    task: TextTask,
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool,
) -> Iterator[TextExample]:
    """Reads the examples of a table, in constant memory but for labelled ids.

    A text may be as long as it likes: what the model cannot take is cut off
    when features are made.

    Args:
      task: says which columns are what.
      path: a table, see `read_rows`.
      bad: is told of rows that cannot be read, with an empty text, with a label
        that is none of the task's, and, among labelled ones, with the id of an
        earlier row.
      labelled: whether labels are read; otherwise that column may lack.

    Yields:
      The examples in the order of the file.

    Raises:
      InputError: see `read_rows`; or the task has no labels to read.
    """
    if labelled and task.label is None:
        raise InputError(
            f"{path}: {task.name} has no files with labels; use it to predict"
        )
    if not labelled:
        task = dataclasses.replace(task, **task.unlabelled)
    parts = {"text": task.text, "pair": task.pair, "id": task.id}
    if labelled:
        parts["label"] = task.label
    parts = {part: at for part, at in parts.items() if at is not None}
    rows = read_rows(
        path,
        list(parts.values()),
        header=task.header,
        lost_header=task.lost_header,
        bad=bad,
    )
    cells = (
        (
            row.place,
            {"id": str(row.number), **dict(zip(parts, row.cells, strict=True))},
        )
        for row in rows
    )
    # Numbers of rows cannot occur twice.
    unique = labelled and task.id is not None
    yield from text_examples(
        task, cells, bad=bad, labelled=labelled, unique=unique
    )


def text_examples(
    task: TextTask,
    rows: Iterable[tuple[str, Mapping[str, str]]],
    *,
    bad: BadExamples,
    labelled: bool,
    unique: bool,
) -> Iterator[TextExample]:
    """Makes examples of rows that have been read, and checks them.

    Args:
      task: has the labels.
      rows: places, and the cells "id", "text", "pair" if the task has one, and
        "label" if it is wanted.
      bad: see `read_texts`.
      labelled: whether labels are wanted.
      unique: whether ids are checked; they are kept in memory then.
    """
    seen: dict[str, str] = {}
    for place, cells in rows:
        problem = _text_problem(cells)
        label = None
        if labelled and not problem:
            label, problem = _label(task, cells["label"])
        if unique and not problem:
            first = seen.setdefault(cells["id"], place)
            if first != place:
                problem = (
                    f"id {cells['id']!r} is that of {first}, too; remove one "
                    "of them"
                )
        if problem:
            bad.report(place, problem)
            continue
        yield TextExample(
            id=cells["id"],
            text=cells["text"],
            pair=cells.get("pair"),
            label=label,
            place=place,
        )


def _text_problem(cells: Mapping[str, str]) -> str:
    """Says which of the texts is of no use; "": none is."""
    for part, words in (("text", "text"), ("pair", "second text")):
        problem = text_problem(cells[part]) if part in cells else ""
        if problem:
            return f"the {words} {problem}; mend or remove the example"
    return ""


def _label(task: TextTask, cell: str) -> tuple[str | float | None, str]:
    """Returns a label as the task has it, and what is wrong with it.

    Args:
      task: the task.
      cell: how a file spells it; blanks around it do not count.

    Returns:
      The label and "", or None and the problem.
    """
    cell = cell.strip()
    if task.labels is None:
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number, ""
        return None, f"label {cell[:60]!r} is not a number; mend it"
    if cell in task.labels:
        return cell, ""
    known = ", ".join(task.labels[:12])
    more = ", ..." if len(task.labels) > 12 else ""
    return None, f"label {cell[:60]!r} is not one of {known}{more}; mend it"
