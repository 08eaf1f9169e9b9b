"""Rows as libraries of data sets have them, made examples."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.example import (
    ChoiceExample,
    SpanExample,
    TextExample,
)
from albert_tf.data.examples.glue import GLUE
from albert_tf.data.examples.race import GROUPS, race_examples
from albert_tf.data.examples.squad import span_examples
from albert_tf.data.examples.text_task import text_examples
from albert_tf.errors import InputError

# The fields of the texts of GLUE's tasks, alike in both libraries.
_TEXTS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
    "wnli": ("sentence1", "sentence2"),
    "ax": ("premise", "hypothesis"),
}
# What their class numbers mean, where that is not our label itself, and the
# data set does not say it.
_CLASSES = {
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}
# The label of all rows of a split whose labels are not published.
_HIDDEN = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedRows:
    """The rows of a data set.

    Attributes:
      name: where they are from, for messages.
      rows: their values are Python's or NumPy's.
      classes: what the numbers of labels mean; None: it does not say.
    """

    name: str
    rows: Iterable[Mapping[str, Any]]
    classes: Sequence[str] | None = None


def examples_of_rows(
    task: str,
    parts: Sequence[NamedRows],
    *,
    bad: BadExamples,
    labelled: bool,
    need_positions: bool = True,
) -> Iterator[TextExample | SpanExample | ChoiceExample]:
    """Makes examples of rows as either library has them.

    Args:
      task: of GLUE, "squad1.1", "squad2.0" or "race".
      parts: the data sets of the task: one, or of RACE one for each of
        `GROUPS`.
      bad, labelled, need_positions: see `read_texts`, `read_squad`,
        `read_race`.

    Raises:
      InputError: a field of the task lacks, or labels are wanted and hidden.
    """
    if task == "race":
        passages = (
            (place, group, row)
            for group, part in zip(GROUPS, parts, strict=True)
            for place, row in _race_rows(part)
        )
        return race_examples(passages, "race", bad=bad, labelled=labelled)
    [part] = parts
    if task in GLUE:
        cells = (
            (place, _cells(task, part, row, labelled))
            for place, row in _numbered(part)
        )
        return text_examples(
            GLUE[task], cells, bad=bad, labelled=labelled, unique=labelled
        )
    return span_examples(
        (_question(task, part, row) for _, row in _numbered(part)),
        part.name,
        bad=bad,
        labelled=labelled,
        need_positions=need_positions,
    )


def _numbered(part: NamedRows) -> Iterator[tuple[str, dict[str, Any]]]:
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


def _field(part: NamedRows, row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise InputError(
            f"{part.name}: has no field {name!r}, but {', '.join(row)}; name "
            "another data set, or the task's files"
        )
    return row[name]


def _cells(
    task: str, part: NamedRows, row: dict[str, Any], labelled: bool
) -> dict[str, str]:
    """Returns the cells of a row of GLUE, as its files have them."""
    texts = [_field(part, row, name) or "" for name in _TEXTS[task]]
    cells = dict(zip(("text", "pair"), texts, strict=False))
    cells["id"] = str(_field(part, row, "idx"))
    if labelled:
        cells["label"] = _label(task, part, _field(part, row, "label"))
    return cells


def _label(task: str, part: NamedRows, label: Any) -> str:
    """Returns a label of GLUE as the task's files have it."""
    if label == _HIDDEN:
        raise InputError(
            f"{part.name}: its labels are hidden; take another split"
        )
    # A class of the data set is ours by its name, or else by its number.
    for classes in (part.classes, _CLASSES.get(task)):
        if classes and label in range(len(classes)):
            if classes[label] in (GLUE[task].labels or ()):
                return classes[label]
    return str(label)


def _question(
    task: str, part: NamedRows, row: dict[str, Any]
) -> dict[str, Any]:
    """Returns a question in SQuAD's own layout."""
    given = _field(part, row, "answers")
    answers = [
        {"text": text, "answer_start": start}
        for text, start in zip(
            given["text"], given["answer_start"], strict=True
        )
    ]
    # Hugging Face's library has no `is_impossible`.
    impossible = task == "squad2.0" and not answers
    return {"is_impossible": impossible, **row, "answers": answers}


def _race_rows(part: NamedRows) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields places and rows, with the numbers of single questions."""
    questions: collections.Counter[str] = collections.Counter()
    for place, row in _numbered(part):
        name = _field(part, row, "example_id")
        yield place, {"question_id": questions[name], **row}
        questions[name] += 1
