"""Examples of token classification, read from files as CoNLL's."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples, read_lines

# Not `str.split`'s blanks: a word may hold a no-break space.
_BLANKS = re.compile(r"[ \t]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationExample:
    """A sentence of words with a label each.

    Attributes:
      id: unique within its file.
      words: the words, none of them empty.
      labels: one a word; None: not known.
      location: where it was read, for messages: "file:line" of the first word.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    location: str


def read_conll(
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool = True,
) -> Iterator[TokenClassificationExample]:
    """Reads sentences, one at a time.

    Args:
      path: a word a line, in the first column, its label in the last; blank
        lines between sentences. Columns are separated by a tab, or where a
        line has none by blanks. Lines with `-DOCSTART-` end a sentence and are
        left out.
      bad: collects sentences with a line that has another number of columns
        than the first line of all, an empty word or label, or bytes that are
        not UTF-8.
      labelled: whether labels are read; otherwise the first column is enough.

    Yields:
      The sentences; ids are their numbers in the file, from 0.

    Raises:
      InputError: the file cannot be read, or has one column only or no
        sentence.
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
                        f"{path}:{line}: one column only; labels must be in "
                        "another one, after a tab or a blank"
                    )
            problem = ""
            if labelled and len(cells) != width:
                problem = f"{len(cells)} columns, not {width} as before"
            elif not cells[0].strip():
                problem = "the word is empty"
            elif labelled and not cells[-1].strip():
                problem = "the label is empty"
            if problem:
                bad.report(f"{path}:{line}", f"{problem}; fix the line")
                break
            words.append(cells[0])
            if labelled:
                labels.append(cells[-1])
        else:
            yield TokenClassificationExample(
                id=str(number),
                words=tuple(words),
                labels=tuple(labels) if labelled else None,
                location=f"{path}:{sentence[0][0]}",
            )
    if number < 0:
        raise InputError(f"{path}: the file has no sentence; name another")


def _sentences(
    path: str | os.PathLike[str], bad: BadExamples
) -> Iterator[list[tuple[int, list[str] | None]]]:
    """Yields the lines of a sentence with their numbers and cells.

    A line that cannot be read has no cells.
    """
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
