"""A task made of somebody's own tables: their columns and classes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.tables import read_rows
from albert_tf.data.examples.text_task import TextTask
from albert_tf.errors import InputError

# More classes than any data set of texts is known to have.
MAX_CLASSES = 1000


def text_task_from_columns(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    text: str | int,
    label: str | int,
    pair: str | int | None = None,
    id: str | int | None = None,
    header: bool | None = None,
    classes: Sequence[str] | None = None,
    number: bool = False,
    metrics: Sequence[str] | None = None,
    name: str = "text",
    on_bad_example: str = "stop",
) -> TextTask:
    """Returns the task that tables of training examples are about.

    Args:
      paths: CSV, TSV or JSON lines, see `read_rows`; they are read, once, if
        the classes are to be found in them.
      text: column of the text: a name, or a number from 0.
      label: column of the label.
      pair: column of a second text; None: there is none.
      id: column of an id; None: rows are numbered.
      header: whether files begin with the names of the columns; None: they do
        if `text` is a name.
      classes: the labels, in the order of the model's outputs; None: those of
        the files, sorted, as numbers if all are whole numbers.
      number: labels are numbers to predict, not classes.
      metrics: the scores, the deciding one first; None: accuracy, or Pearson's
        and Spearman's correlations for numbers.
      name: of the task.
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
        header = isinstance(text, str)
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
        labels = _find_classes(paths, label, header, bad)
    if metrics is None:
        metrics = ("pearson", "spearman") if number else ("accuracy",)
    return TextTask(
        name=name,
        labels=labels,
        metrics=tuple(metrics),
        text=text,
        pair=pair,
        label=label,
        id=id,
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
                bad.report(row.place, "the label is empty; give one")
                continue
            found.add(cell)
            if len(found) > MAX_CLASSES:
                raise InputError(
                    f"{row.place}: column {label!r} has more than "
                    f"{MAX_CLASSES} labels; name another column, or say that "
                    "labels are numbers"
                )
    if len(found) < 2:
        raise InputError(
            f"{paths[0]}: column {label!r} has {len(found)} label"
            f"{'' if len(found) == 1 else 's'} ({', '.join(found)}); a task "
            "needs two or more, or numbers"
        )
    if all(cell.removeprefix("-").isdecimal() for cell in found):
        return tuple(sorted(found, key=lambda cell: (int(cell), cell)))
    return tuple(sorted(found))
