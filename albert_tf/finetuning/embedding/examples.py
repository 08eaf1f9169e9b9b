"""Examples of texts whose embeddings are trained, and of pairs of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import (
    BadExamples,
    file_extension,
    parse_number,
    read_lines,
    text_problem,
)
from albert_tf.finetuning.tables import read_rows
from albert_tf.finetuning.task_config import TaskConfig

EMBEDDING = TaskConfig(
    name="embedding",
    task_type="embedding",
    metrics=("spearman", "pearson"),
    settings={"max_seq_length": 128},
)

# Layouts of tables: the columns of the texts, of which the last may be missing
# in the first layout; and the column of the score, which may be missing.
_TRIPLET = ("anchor", "positive", "negative")
_SCORED = ("sentence1", "sentence2")
_SCORE = "score"
# What other libraries call scores.
_OTHER_SCORES = ("label", "similarity", "similarity_score")
_LAYOUTS = (
    "anchor, positive and optionally negative; or sentence1, sentence2 and "
    "optionally score"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingExample:
    """A text, a pair of similar texts, a triplet, or a pair with a score.

    Attributes:
      id: unique id within the file.
      texts: one text; two similar ones; or a text, a similar one and one that
        is not similar (a hard negative).
      label: score of the similarity of two texts; None if there is none.
      location: location for error messages, "file:line".
    """

    id: str
    texts: tuple[str, ...]
    label: float | None = None
    location: str

    @property
    def has_label(self) -> bool:
        """Whether predictions can be scored: those of pairs can."""
        return len(self.texts) > 1


def read_embedding_examples(
    path: str | os.PathLike[str], *, bad: BadExamples, labelled: bool
) -> Iterator[EmbeddingExample]:
    """Reads the examples of a file, in constant memory.

    The content is told from the name and, in tables, from the header:

    - `.txt`: a text per line, without blank ones
    - a table (see `read_rows`) with the columns `anchor`, `positive` and
      optionally `negative`
    - a table with the columns `sentence1`, `sentence2` and optionally `score`,
      such as STS-B

    Args:
      path: the file, which may be compressed (.gz).
      bad: collects rows that cannot be read or, if `labelled`, have an empty
        text, a score that is not a number, or a negative that equals another
        text of its row.
      labelled: whether examples are for training or scores; other files may
        have empty texts, and their scores are not read.

    Raises:
      InputError: if the file cannot be read, or a table has other columns.
    """
    if file_extension(path) == ".txt":
        rows = _read_lines(path, bad)
    else:
        rows = _read_table(path, bad, labelled)
    for number, location, texts, score in rows:
        problem = _problem(texts, may_be_empty=not labelled)
        label = None
        if score is not None and not problem:
            label, problem = parse_number(score, "the score")
        if problem:
            bad.report(location, problem)
            continue
        yield EmbeddingExample(
            id=str(number), texts=texts, label=label, location=location
        )


_Rows = Iterator[tuple[int, str, tuple[str, ...], str | None]]


def _read_lines(path: str | os.PathLike[str], bad: BadExamples) -> _Rows:
    """Yields the number, location and text of each line that is not blank."""
    found = False
    for number, line in read_lines(path, bad):
        if line is None or not line.strip():
            continue
        found = True
        yield number - 1, f"{path}:{number}", (line,), None
    if not found:
        raise InputError(f"{path}: the file has no texts; give another file")


def _read_table(
    path: str | os.PathLike[str], bad: BadExamples, labelled: bool
) -> _Rows:
    """Yields the number, location, texts and score of each row of a table."""
    names = (*_TRIPLET, *_SCORED, _SCORE, *_OTHER_SCORES)
    columns: Mapping[str, str | int] = {name: name for name in names}
    for row in read_rows(path, columns, optional=names, bad=bad):
        found = row.cells.keys() - {*_OTHER_SCORES}
        others = row.cells.keys() - found
        if labelled and others and {*_SCORED} == found:
            raise InputError(
                f"{path}: has the column {min(others)}; call it {_SCORE} to "
                "train on it, or remove it to train on pairs of similar texts"
            )
        if {*_TRIPLET[:2]} <= found and found.isdisjoint((*_SCORED, _SCORE)):
            texts = tuple(row.cells[x] for x in _TRIPLET if x in found)
        elif {*_SCORED} <= found and found.isdisjoint(_TRIPLET):
            texts = tuple(row.cells[x] for x in _SCORED)
        else:
            raise InputError(
                f"{path}: the header has {', '.join(sorted(found)) or 'none'} "
                f"of the columns of an embedding task, but must have {_LAYOUTS}"
            )
        score = row.cells.get(_SCORE) if labelled else None
        yield row.number, row.location, texts, score


def _problem(texts: tuple[str, ...], *, may_be_empty: bool) -> str:
    """Returns what is wrong with the texts of a row; "" if nothing is."""
    for number, text in enumerate(texts):
        if problem := text_problem(text, may_be_empty=may_be_empty):
            return f"text {number + 1} {problem}; fix or remove the example"
    if len(texts) == len(_TRIPLET) and not may_be_empty:
        if texts[2] in texts[:2]:
            return "the negative equals another text; give a different one"
    return ""
