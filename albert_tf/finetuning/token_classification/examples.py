"""Token classification examples, and a reader for CoNLL files."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterator

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples, read_lines
from albert_tf.finetuning.task_config import DEFAULT_SETTINGS, TaskConfig

NER = TaskConfig(
    name="ner",
    task_type="token_classification",
    metrics=("f1", "precision", "recall", "accuracy"),
    settings=DEFAULT_SETTINGS,
    source={
        "reader": "conll",
        "folder": "ner",
        "files": {name: f"{name}.txt" for name in ("train", "dev", "test")},
    },
)

# Unlike `str.split`, since words may contain a no-break space.
_BLANKS = re.compile(r"[ \t]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationExample:
    """A sentence with a label for each word.

    Attributes:
      id: unique id within the file.
      words: the words; none is empty.
      labels: label of each word; None if unknown.
      location: location of the first word for error messages, "file:line".
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    location: str

    @property
    def has_label(self) -> bool:
        """Whether predictions can be scored."""
        return self.labels is not None


def read_conll(
    path: str | os.PathLike[str], *, bad: BadExamples, labelled: bool = True
) -> Iterator[TokenClassificationExample]:
    """Reads sentences in the format of CoNLL's shared tasks.

    Ids of sentences are their indices in the file.

    Args:
      path: a file with one word per line, in the first column, and its label in
        the last one; sentences are separated by blank lines. Columns are
        separated by tabs, or in lines without tabs by spaces. Lines with
        `-DOCSTART-` separate sentences, too.
      bad: collects sentences with an empty word or label, bytes that are not
        UTF-8, or a number of columns that differs from the first line's.
      labelled: whether to read labels; otherwise, one column is sufficient.

    Raises:
      InputError: if the file cannot be read, or has no labels or no sentences.
    """
    width: int | None = None
    number = -1
    for number, sentence in enumerate(_sentences(path, bad)):
        words, labels = [], []
        for line, cells in sentence:
            if cells is None:
                break
            if width is None:
                width = len(cells)
                if labelled and width < 2:
                    raise InputError(
                        f"{path}:{line}: only one column; labels must follow "
                        "in another one, after a tab or a space"
                    )
            problem = ""
            if labelled and len(cells) != width:
                problem = f"{len(cells)} columns, but expected {width}"
            elif not cells[0].strip():
                problem = "the word is empty"
            elif labelled and not cells[-1].strip():
                problem = "the label is empty"
            if problem:
                bad.report(f"{path}:{line}", f"{problem}; fix the line")
                break
            words.append(cells[0])
            if labelled:
                labels.append(cells[-1].strip())
        else:
            yield TokenClassificationExample(
                id=str(number),
                words=tuple(words),
                labels=tuple(labels) if labelled else None,
                location=f"{path}:{sentence[0][0]}",
            )
    if number < 0:
        raise InputError(f"{path}: no sentences; give another file")


def _sentences(
    path: str | os.PathLike[str], bad: BadExamples
) -> Iterator[list[tuple[int, list[str] | None]]]:
    """Yields line numbers and cells of each sentence; None if not UTF-8."""
    sentence: list[tuple[int, list[str] | None]] = []
    for line, text in read_lines(path, bad):
        if text is None:
            sentence.append((line, None))
        elif text.strip() and not text.startswith("-DOCSTART-"):
            if "\t" in text:
                cells = text.split("\t")
            else:
                cells = _BLANKS.split(text.strip(" "))
            sentence.append((line, cells))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def label_problem(
    example: TokenClassificationExample, labels: Collection[str]
) -> str:
    """Returns what is wrong with an example's labels, or ""."""
    if example.labels is None:
        return "no labels"
    for label in example.labels:
        if label not in labels:
            return (
                f"label {label!r} is not one of {', '.join(labels)}, the "
                "labels of the training files"
            )
    return ""


def labels_of(
    example: TokenClassificationExample, label_ids: dict[str, int]
) -> list[int]:
    """Returns the ids of an example's labels, or raises an `InputError`."""
    if problem := label_problem(example, label_ids):
        raise InputError(f"{example.location}: {problem}")
    return [label_ids[label] for label in example.labels or ()]
