"""Examples of texts and text pairs, read from tables."""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError, counted
from albert_tf.finetuning.examples import (
    BadExamples,
    parse_number,
    text_problem,
)
from albert_tf.finetuning.tables import Row, read_rows
from albert_tf.finetuning.task_config import DEFAULT_SETTINGS, TaskConfig

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextExample:
    """A text or a pair of texts, to be classified or scored.

    Attributes:
      id: unique id within the file.
      text: the text, or the first one of a pair, unchanged.
      pair: the second text; None in tasks of single texts.
      label: one of the task's labels, or a number; None if unknown.
      location: location for error messages, "file:line".
    """

    id: str
    text: str
    pair: str | None = None
    label: str | float | None = None
    location: str

    @property
    def has_label(self) -> bool:
        """Whether predictions can be scored."""
        return self.label is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask:
    """A task whose examples are rows of tables.

    Columns are given by their names, or by their indices from 0.

    Attributes:
      labels: classes in the order of the model's outputs; None for regression.
      metrics: names of the metrics; the first selects the best model.
      text: column of the text.
      pair: column of the second text; None in tasks of single texts.
      label: column of the label; None if no file has labels.
      id: column of the id; None if ids are row numbers.
      header: whether files begin with the names of the columns.
      lost_header: see `read_rows`.
      unlabelled: attributes above that differ for files without labels.
      folder: name of the task's folder.
      files, other_files: split -> file name, and an alternative one.
      submissions: split -> name of the file of predictions that the benchmark's
        website expects.
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


def text_task_config(
    task: TextTask,
    task_type: str | None = None,
    settings: Mapping[str, Any] = DEFAULT_SETTINGS,
) -> TaskConfig:
    """Returns the configuration of a task.

    Without a `task_type`, it is classification or, without labels, regression.
    """
    known = "regression" if task.labels is None else "text_classification"
    return TaskConfig(
        name=task.name,
        task_type=task_type or known,
        labels=task.labels,
        metrics=task.metrics,
        settings=settings,
        source={"reader": "texts", **dataclasses.asdict(task)},
    )


def read_texts(
    task: TextTask,
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool,
    training: bool = False,
) -> Iterator[TextExample]:
    """Reads the examples of a table, in constant memory except for ids.

    Texts may have any length; they are truncated when features are made.

    Args:
      task: the columns and labels of the table.
      bad: collects rows that cannot be read or, if `labelled`, have an empty
        text, an invalid label or a duplicate id.
      labelled: whether to read labels; otherwise their column may be missing.
      training: whether the column of ids is required. Other tables may lack
        that of the training files; ids are then row numbers.

    Raises:
      InputError: if the table cannot be read, or `labelled` is set for a task
        without labels.
    """
    if labelled and task.label is None:
        raise InputError(
            f"{path}: {task.name} has no files with labels; it can only be "
            "predicted"
        )
    # That of GLUE's test sets is optional, one given to `predict` is not.
    needs_id = training or (task.id is not None and "id" in task.unlabelled)
    if not labelled and not _begins_with_label(task, path):
        task = dataclasses.replace(task, **task.unlabelled)
    columns = {"text": task.text, "pair": task.pair, "id": task.id}
    if labelled:
        columns["label"] = task.label
    columns = {key: x for key, x in columns.items() if x is not None}
    rows = read_rows(
        path,
        columns,
        optional=() if needs_id or task.id is None else ("id",),
        header=task.header,
        lost_header=task.lost_header,
        bad=bad,
    )
    parse = functools.partial(parse_label, task) if labelled else None
    # Row numbers are unique anyway.
    unique = labelled and task.id is not None
    yield from text_examples(_located(rows), parse, bad=bad, unique=unique)


def _located(rows: Iterable[Row]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the location and the cells of each row, with an id."""
    for row in rows:
        yield row.location, {"id": str(row.number), **row.cells}


def _begins_with_label(task: TextTask, path: str | os.PathLike[str]) -> bool:
    """Returns whether a table that may lack labels and header has labels.

    Only tables without labels, such as CoLA's test set, have a header. Its
    development set can be predicted, too.
    """
    if task.header or not task.unlabelled.get("header") or task.label is None:
        return False
    bad, columns = BadExamples("skip"), {"label": task.label}
    try:
        row = next(read_rows(path, columns, header=False, bad=bad))
    except (InputError, StopIteration):
        return False
    return not parse_label(task, row.cells["label"])[1]


_Label = str | float | None
# Returns a label and "", or None and the problem, of a cell.
ParseLabel = Callable[[str], tuple[_Label, str]]


def text_examples(
    rows: Iterable[tuple[str, Mapping[str, str]]],
    parse: ParseLabel | None,
    *,
    bad: BadExamples,
    unique: bool,
) -> Iterator[TextExample]:
    """Checks rows and converts them to examples.

    Args:
      rows: locations, and cells by key: "id", "text", "pair" in tasks of pairs,
        and "label" if labels are parsed.
      parse: parses a label, see `parse_label`; None to set none.
      unique: whether to check that ids are unique, which keeps them in memory.
    """
    seen: dict[str, str] = {}
    for location, cells in rows:
        problem = _text_problem(cells, may_be_empty=parse is None)
        label: _Label = None
        if parse and not problem:
            label, problem = parse(cells["label"])
        if unique and not problem:
            first = seen.setdefault(cells["id"], location)
            if first != location:
                problem = (
                    f"id {cells['id']!r} is also used by {first}; remove one "
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


def _text_problem(cells: Mapping[str, str], may_be_empty: bool) -> str:
    """Returns what is wrong with a text; "" if nothing is."""
    for key, name in (("text", "text"), ("pair", "second text")):
        if key not in cells:
            continue
        if problem := text_problem(cells[key], may_be_empty=may_be_empty):
            return f"the {name} {problem}; fix or remove the example"
    return ""


def parse_label(task: TextTask, cell: str) -> tuple[_Label, str]:
    """Parses a label; returns it and "", or None and the problem."""
    cell = cell.strip()
    if task.labels is None:
        return parse_number(cell, "label")
    if cell in task.labels:
        return cell, ""
    known = ", ".join(task.labels[:12])
    more = ", ..." if len(task.labels) > 12 else ""
    return None, f"label {cell[:60]!r} is not one of {known}{more}; fix it"


# A column with more labels is probably not one of labels.
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
    """Defines a task from tables of training examples.

    Args:
      paths: CSV, TSV or JSON Lines files, see `read_rows`; they are read once
        to collect the classes, unless these are given.
      columns: columns, by name or index, of "text" and "label", and optionally
        "pair", the second text, and "id". Ids are row numbers by default.
      header: whether files begin with the names of the columns; None if they do
        where a column is given by its name.
      classes: labels in the order of the model's outputs; None for the sorted
        labels of the files. Integers are sorted numerically.
      number: whether labels are numbers to predict, not classes.
      on_bad_example: "stop" or "skip" rows that cannot be used, whose labels
        are no classes. Skipped rows are reported by `read_texts`, not here.

    Raises:
      InputError: if a table cannot be read, `classes` are given for numbers or
        not unique, or there are less than two or too many classes.
    """
    if number and classes is not None:
        raise InputError(
            f"classes={','.join(classes)!r} must be left out if labels are "
            "numbers"
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
        labels = _find_classes(paths, columns, header, bad)
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
    columns: Mapping[str, str | int],
    header: bool,
    bad: BadExamples,
) -> tuple[str, ...]:
    """Returns the sorted labels of tables, of the rows that can be used."""

    def parse(cell: str) -> tuple[str, str]:
        label = cell.strip()
        return label, "" if label else "the label is empty; give one"

    label = columns["label"]
    found: collections.Counter[str] = collections.Counter()
    # Location and label of the first row of each table.
    first: dict[str, str] = {}
    for path in paths:
        rows = read_rows(path, columns, header=header, bad=bad)
        examples = text_examples(
            _located(rows), parse, bad=bad, unique="id" in columns
        )
        for number, example in enumerate(examples):
            cell = str(example.label)
            found[cell] += 1
            if not number:
                first[example.location] = cell
            if len(found) > MAX_CLASSES:
                raise InputError(
                    f"{example.location}: column {label!r} has more than "
                    f"{MAX_CLASSES} labels; give another column, or declare "
                    "labels as numbers"
                )
    for location, cell in first.items():
        is_first = found[cell] == list(first.values()).count(cell)
        if not header and is_first and found[cell] < max(found.values()):
            _logger.warning(
                "%s: no other row has the label %r; if this is the header, "
                "give --header",
                location,
                cell,
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
