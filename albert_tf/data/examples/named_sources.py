"""Data sets by name, through TensorFlow Datasets or Hugging Face's library."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
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

SOURCES = ("tfds", "huggingface")

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
# What their class numbers mean, where that is not our label itself.
_CLASSES = {
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}
# Task -> names in TensorFlow Datasets; and paths and configurations in Hugging
# Face's hub. RACE's groups are data sets of their own.
_TFDS = {name: (f"glue/{name}",) for name in _TEXTS} | {
    "squad1.1": ("squad/v1.1",),
    "squad2.0": ("squad/v2.0",),
    "race": tuple(f"race/{group}" for group in GROUPS),
}
_HUGGING_FACE: dict[str, tuple[tuple[str, ...], ...]] = {
    name: (("nyu-mll/glue", name),) for name in _TEXTS
} | {
    "squad1.1": (("rajpurkar/squad",),),
    "squad2.0": (("rajpurkar/squad_v2",),),
    "race": tuple(("ehovy/race", group) for group in GROUPS),
}
_INSTALL = {
    "tfds": ("tensorflow_datasets", "pip install tensorflow-datasets"),
    "huggingface": ("datasets", "pip install datasets"),
}


def read_named(
    task: str,
    split: str,
    *,
    source: str,
    bad: BadExamples,
    labelled: bool,
    need_positions: bool = True,
) -> Iterator[TextExample | SpanExample | ChoiceExample]:
    """Reads a split of a data set by its name, downloading it if need be.

    The order is the library's; ids of GLUE's examples are their numbers in the
    files as distributed.

    Args:
      task: of GLUE, "squad1.1", "squad2.0" or "race".
      split: "train", "dev", "test", or with MNLI "dev_mismatched" or
        "test_mismatched".
      source: one of `SOURCES`.
      bad, labelled, need_positions: see `read_texts`, `read_squad`,
        `read_race`.

    Raises:
      InputError: another task or source, the source's package is not installed,
        or it cannot get the data set.
    """
    if source not in SOURCES:
        raise InputError(f"from={source!r} must be one of {', '.join(SOURCES)}")
    if task not in _TFDS:
        raise InputError(
            f"task={task!r} cannot be had by --from={source}, only "
            f"{', '.join(_TFDS)}; name its files"
        )
    package, command = _INSTALL[source]
    try:
        library = importlib.import_module(package)
    except ImportError as error:
        raise InputError(
            f"from={source!r} needs the package {package}: {command}"
        ) from error
    theirs = _split(task, split, source)
    names = (_TFDS if source == "tfds" else _HUGGING_FACE)[task]
    rows: list[tuple[str, Iterable[Mapping[str, Any]]]] = []
    for name in names:
        shown = name if isinstance(name, str) else "/".join(name)
        try:
            if source == "tfds":
                data = library.as_numpy(library.load(name, split=theirs))
            else:
                data = library.load_dataset(*name, split=theirs)
        except Exception as error:  # of the network, the disk or the library
            reason = (str(error).strip().splitlines() or [repr(error)])[0]
            raise InputError(
                f"{source} {shown}, split {theirs}: cannot be had "
                f"({reason[:200]}); name the task's files"
            ) from error
        rows.append((f"{source} {shown} {theirs}", data))
    return examples_of_rows(
        task,
        rows,
        bad=bad,
        labelled=labelled,
        need_positions=need_positions,
    )


def examples_of_rows(
    task: str,
    data_sets: Iterable[tuple[str, Iterable[Mapping[str, Any]]]],
    *,
    bad: BadExamples,
    labelled: bool,
    need_positions: bool = True,
) -> Iterator[TextExample | SpanExample | ChoiceExample]:
    """Makes examples of rows as either library has them.

    Args:
      task: see `read_named`.
      data_sets: where rows are from, for messages, and the rows, whose values
        are Python's or NumPy's. RACE's come in the order of `GROUPS`.
      bad, labelled, need_positions: see `read_named`.
    """
    if task == "race":
        passages = (
            (place, group, row)
            for group, (name, rows) in zip(GROUPS, data_sets, strict=True)
            for place, row in _race_rows(name, rows)
        )
        return race_examples(passages, "race", bad=bad, labelled=labelled)
    [(name, rows)] = data_sets
    if task in GLUE:
        cells = _numbered(name, rows, lambda row: _cells(task, row, labelled))
        return text_examples(
            GLUE[task], cells, bad=bad, labelled=labelled, unique=labelled
        )
    return span_examples(
        (_question(task, _plain(row)) for row in rows),
        name,
        bad=bad,
        labelled=labelled,
        need_positions=need_positions,
    )


def _split(task: str, split: str, source: str) -> str:
    """Returns the name that a library has for one of our splits."""
    kind, _, rest = split.partition("_")
    if task == "mnli" and kind != "train":
        rest = rest or "matched"
    if kind == "dev" and not (task == "race" and source == "tfds"):
        kind = "validation"
    return f"{kind}_{rest}" if rest else kind


def _numbered(
    name: str,
    rows: Iterable[Mapping[str, Any]],
    convert: Callable[[dict[str, Any]], Any],
) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(rows):
        yield f"{name}, row {number}", convert(_plain(row))


def _plain(value: Any) -> Any:
    """Returns NumPy's values, and bytes, as Python's."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _cells(task: str, row: dict[str, Any], labelled: bool) -> dict[str, str]:
    """Returns the cells of a row of GLUE, as its files have them."""
    cells = dict(
        zip(("text", "pair"), map(row.get, _TEXTS[task]), strict=False)
    )
    cells = {part: text or "" for part, text in cells.items()}
    cells["id"] = str(row["idx"])
    if labelled:
        label = row["label"]
        classes = _CLASSES.get(task)
        if classes and label in range(len(classes)):
            label = classes[label]
        cells["label"] = str(label)
    return cells


def _question(task: str, row: dict[str, Any]) -> dict[str, Any]:
    """Returns a question in SQuAD's own layout."""
    texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
    answers = [
        {"text": text, "answer_start": start}
        for text, start in zip(texts, starts, strict=True)
    ]
    # Hugging Face's library has no `is_impossible`.
    impossible = task == "squad2.0" and not answers
    return {"is_impossible": impossible, **row, "answers": answers}


def _race_rows(
    name: str, rows: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields places and rows, with the numbers of single questions."""
    questions: collections.Counter[str] = collections.Counter()
    for place, row in _numbered(name, rows, dict):
        yield place, {"question_id": questions[row["example_id"]], **row}
        questions[row["example_id"]] += 1
