"""Examples of texts and pairs of texts, read from tables."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError, counted
from albert_tf.finetuning.examples import BadExamples, text_problem
from albert_tf.finetuning.tables import read_rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextExample:
    """One text or two, to be classified or given a number.

    Attributes:
      id: unique within its file.
      text: the text, or the first of two, as it was in the file.
      pair: the second text; None: the task has one only.
      label: one of the task's labels, or a number; None: not known.
      location: where it was read, for messages: "file:line".
    """

    id: str
    text: str
    pair: str | None = None
    label: str | float | None = None
    location: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask:
    """A task whose examples are rows of tables: columns, labels and files.

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
      bad: collects rows that cannot be read, with an empty text, with a label
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
            row.location,
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
      rows: locations, and the cells "id", "text", "pair" if the task has one,
        and "label" if it is wanted.
      bad: see `read_texts`.
      labelled: whether labels are wanted.
      unique: whether ids are checked; they are kept in memory then.
    """
    seen: dict[str, str] = {}
    for location, cells in rows:
        problem = _text_problem(cells)
        label = None
        if labelled and not problem:
            label, problem = _label(task, cells["label"])
        if unique and not problem:
            first = seen.setdefault(cells["id"], location)
            if first != location:
                problem = (
                    f"id {cells['id']!r} is that of {first}, too; remove one "
                    "of them"
                )
        if problem:
            bad.report(location, problem)
            continue
        yield TextExample(
            id=cells["id"],
            text=cells["text"],
            pair=cells.get("pair"),
            label=label,
            location=location,
        )


def _text_problem(cells: Mapping[str, str]) -> str:
    """Says which of the texts is of no use; "": none is."""
    for part, words in (("text", "text"), ("pair", "second text")):
        problem = text_problem(cells[part]) if part in cells else ""
        if problem:
            return f"the {words} {problem}; fix or remove the example"
    return ""


def _label(task: TextTask, cell: str) -> tuple[str | float | None, str]:
    """Returns the label of a cell and "", or None and the problem."""
    cell = cell.strip()
    if task.labels is None:
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number, ""
        return None, f"label {cell[:60]!r} is not a number; fix it"
    if cell in task.labels:
        return cell, ""
    known = ", ".join(task.labels[:12])
    more = ", ..." if len(task.labels) > 12 else ""
    return None, f"label {cell[:60]!r} is not one of {known}{more}; fix it"


# More classes than any data set of texts is known to have.
MAX_CLASSES = 1000


def text_task_from_columns(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Mapping[str, str | int],
    *,
    header: bool | None = None,
    classes: Sequence[str] | None = None,
    number: bool = False,
    on_bad_example: str = "stop",
) -> TextTask:
    """Returns the task of tables of training examples.

    Args:
      paths: CSV, TSV or JSON lines, see `read_rows`; they are read, once, if
        the classes are to be found in them.
      columns: names of columns, or numbers from 0, of what they hold: "text"
        and "label", and there may be "pair", a second text, and "id". Without
        the last, rows are numbered.
      header: whether files begin with the names of their columns; None: they
        do if a column is given by its name.
      classes: the labels, in the order of the model's outputs; None: those of
        the files, sorted, as numbers if all are whole numbers.
      number: labels are numbers to predict, not classes.
      on_bad_example: what to do about rows that cannot be read or have no
        label: "stop", or "skip", and leave counting to `read_texts`.

    Raises:
      InputError: classes are given for numbers, twice or one only; the files
        have one only or too many; or see `read_rows`.
    """
    if number and classes is not None:
        raise InputError(
            f"classes={','.join(classes)!r} must be left out for labels that "
            "are numbers"
        )
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    if header is None:
        header = any(isinstance(column, str) for column in columns.values())
    if number:
        labels = None
    elif classes is not None:
        labels = tuple(classes)
        if len(set(labels)) != len(labels) or len(labels) < 2:
            raise InputError(
                f"classes={','.join(labels)!r} must be two or more different "
                "labels"
            )
    else:
        bad = BadExamples(on_bad_example)
        labels = _find_classes(paths, columns["label"], header, bad)
    return TextTask(
        name="text",
        labels=labels,
        metrics=("pearson", "spearman") if number else ("accuracy",),
        text=columns["text"],
        pair=columns.get("pair"),
        label=columns["label"],
        id=columns.get("id"),
        header=header,
    )


def _find_classes(
    paths: Sequence[str | os.PathLike[str]],
    label: str | int,
    header: bool,
    bad: BadExamples,
) -> tuple[str, ...]:
    """Returns the sorted labels of some tables."""
    found: set[str] = set()
    for path in paths:
        for row in read_rows(path, [label], header=header, bad=bad):
            cell = row.cells[0].strip()
            if not cell:
                bad.report(row.location, "the label is empty; give one")
                continue
            found.add(cell)
            if len(found) > MAX_CLASSES:
                raise InputError(
                    f"{row.location}: column {label!r} has more than "
                    f"{MAX_CLASSES} labels; name another column, or say that "
                    "labels are numbers"
                )
    if len(found) < 2:
        raise InputError(
            f"{paths[0]}: column {label!r} has "
            f"{counted(len(found), 'label')} ({', '.join(found)}); a task "
            "needs two or more, or numbers"
        )
    if all(cell.removeprefix("-").isdecimal() for cell in found):
        return tuple(sorted(found, key=lambda cell: (int(cell), cell)))
    return tuple(sorted(found))
