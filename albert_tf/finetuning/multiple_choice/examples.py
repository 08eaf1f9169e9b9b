"""Examples of multiple choice, read from the files of RACE and DREAM."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import (
    BadExamples,
    load_json,
    parse_json,
    read_lines,
    text_problem,
)

GROUPS = ("middle", "high")
_LETTERS = ("A", "B", "C", "D")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceExample:
    """A question about a passage with several possible answers.

    Attributes:
      id: unique within its source.
      passage: what the question is about.
      question: the question, or a sentence with the blank `_`.
      options: the possible answers, two or more.
      label: index of the right one in `options`; None: not known.
      group: a part of the data that is also scored by itself.
      location: where it was read, for messages.
    """

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    group: str | None = None
    location: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Question:
    """A question as it was read; `answer` is to be one of `answers`."""

    id: str
    passage: Any
    question: Any
    options: Any
    answer: Any
    answers: Sequence[Any]
    group: str | None = None
    location: str


def _checked(
    questions: Iterable[_Question],
    source: str,
    num_options: int,
    *,
    bad: BadExamples,
    labelled: bool,
) -> Iterator[MultipleChoiceExample]:
    """Yields the examples of questions, and collects those with a problem."""
    seen: set[str] = set()
    found = False
    for question in questions:
        found = True
        location = f"{question.location}, question {question.id}"
        problem = _problem(question, num_options, labelled)
        if not problem and question.id in seen:
            problem = "another question has this id; remove one of them"
        if problem:
            bad.report(location, problem)
            continue
        seen.add(question.id)
        yield MultipleChoiceExample(
            id=question.id,
            passage=question.passage,
            question=question.question,
            options=tuple(question.options),
            label=question.answers.index(question.answer) if labelled else None,
            group=question.group,
            location=location,
        )
    if not found:
        raise InputError(f"{source}: no questions; name another file or folder")


def _problem(question: _Question, num_options: int, labelled: bool) -> str:
    """Says what is wrong with a question; "": nothing."""
    options = question.options
    if not isinstance(options, list) or len(options) != num_options:
        return f"not {num_options} options"
    texts = {"passage": question.passage, "question": question.question}
    texts |= {f"option {n}": option for n, option in enumerate(options, 1)}
    for name, text in texts.items():
        if problem := text_problem(text):
            return f"the {name} {problem}"
    if labelled and question.answers.count(question.answer) != 1:
        return (
            f"answer {question.answer!r:.60} is not exactly one of "
            f"{', '.join(map(str, question.answers)):.200}"
        )
    return ""


def read_race(
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool = True,
) -> Iterator[MultipleChoiceExample]:
    """Reads the questions of a split of RACE.

    Args:
      path: a folder with `middle/` and `high/`, each with a file a passage, as
        distributed, or an `all.txt` with a passage a line, as the original
        wants; or a file of JSON lines, of passages with `questions`, `options`
        and `answers` or of single questions with `question`, `options` and
        `answer`.
      bad: collects passages that cannot be read, and of questions with an
        empty text, not four options, an answer that is not one of A to D, or
        the id of an earlier one.
      labelled: whether answers are read.

    Returns:
      The questions; the group is the folder, or in a file of JSON lines what
      the id begins with. Ids are the passage's, a dash, and the number of the
      question, from 0 where the file does not give it.

    Raises:
      InputError: nothing of the kind is there, or it cannot be read.
    """
    passages = _passages(pathlib.Path(path), bad)
    return race_examples(passages, os.fspath(path), bad=bad, labelled=labelled)


def race_examples(
    passages: Iterable[tuple[str, str | None, Mapping[str, Any]]],
    source: str,
    *,
    bad: BadExamples,
    labelled: bool = True,
) -> Iterator[MultipleChoiceExample]:
    """Makes examples of passages that have been read, and checks them.

    Args:
      passages: locations, groups (None: as the id says) and what RACE says of a
        passage or a question.
      source: where they are from, for messages.
      bad, labelled: see `read_race`.

    Raises:
      InputError: there are no questions.
    """
    questions = (
        question
        for location, folder, passage in passages
        for question in _questions_of_race(location, folder, passage)
    )
    return _checked(
        questions,
        source,
        num_options=len(_LETTERS),
        bad=bad,
        labelled=labelled,
    )


def _passages(
    path: pathlib.Path, bad: BadExamples
) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yields locations, folders (None: it has none) and passages."""
    if not path.is_dir():
        yield from _lines(path, None, bad)
        return
    folders = [group for group in GROUPS if (path / group).is_dir()]
    if not folders:
        raise InputError(
            f"{path}: has none of the folders {', '.join(GROUPS)}; name the "
            "folder of a split, such as RACE/train"
        )
    for group in folders:
        for name in ("all.txt", "all.txt.gz"):
            if (path / group / name).exists():
                yield from _lines(path / group / name, group, bad)
                break
        else:
            for file in sorted((path / group).glob("*.txt"), key=_number):
                try:
                    passage = load_json(file)
                except InputError as error:
                    bad.report(*str(error).split(": ", 1))
                    continue
                if isinstance(passage, dict):
                    yield str(file), group, passage
                else:
                    problem = "not a JSON object; get the file again"
                    bad.report(str(file), problem)


def _lines(
    path: pathlib.Path, group: str | None, bad: BadExamples
) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yields locations, the group and values of JSON lines."""
    for number, line in read_lines(path, bad):
        location = f"{path}:{number}"
        if line is None or not line.strip():
            continue
        value, problem = parse_json(line)
        if isinstance(value, dict):
            yield location, group, value
        else:
            problem = problem or "not a JSON object"
            bad.report(location, f"{problem}; fix the line")


def _questions_of_race(
    location: str, folder: str | None, passage: Mapping[str, Any]
) -> Iterator[_Question]:
    """Yields the questions of a passage, or the question of a line."""
    name = passage.get("id", passage.get("example_id", "without id"))
    if "questions" in passage:
        lists = [passage.get(x) for x in ("questions", "options", "answers")]
        parts = itertools.zip_longest(
            range(len(lists[0]) if isinstance(lists[0], list) else 0),
            *(each if isinstance(each, list) else [] for each in lists),
        )
    else:
        keys = ("question", "options", "answer")
        number = passage.get("question_id", 0)
        parts = [(number, *(passage.get(key) for key in keys))]
    for number, question, options, answer in parts:
        if number is None:
            return  # More options or answers than questions.
        question_id = f"{name}-{number}"
        yield _Question(
            id=question_id,
            passage=passage.get("article"),
            question=question,
            options=options,
            answer=answer,
            answers=_LETTERS,
            group=folder
            or next((x for x in GROUPS if question_id.startswith(x)), None),
            location=location,
        )


def _number(file: pathlib.Path) -> tuple[int, str]:
    digits = re.search(r"\d+", file.name)
    return (int(digits[0]) if digits else -1, file.name)


def read_dream(
    path: str | os.PathLike[str], *, bad: BadExamples, labelled: bool = True
) -> Iterator[MultipleChoiceExample]:
    """Reads the questions of a JSON file of DREAM.

    Args:
      path: a list of dialogues `[turns, questions, id]`, where a question has
        `question`, `choice` and `answer`, the right choice's text.
      bad: collects questions with an empty text, not three choices, an answer
        that is none or several of them, or the id of an earlier one.
      labelled: whether answers are read.

    Returns:
      The questions; the passage is the turns with line feeds between them. Ids
      are the dialogue's, a dash, and the number of the question from 0.

    Raises:
      InputError: the file cannot be read, is not JSON, has another layout, or
        has no questions.
    """
    return _checked(
        _questions_of_dream(path),
        os.fspath(path),
        num_options=3,
        bad=bad,
        labelled=labelled,
    )


def _questions_of_dream(path: str | os.PathLike[str]) -> Iterator[_Question]:
    dialogues = load_json(path)
    try:
        for turns, questions, name in dialogues:
            passage = "\n".join(turns)
            for number, question in enumerate(questions):
                options = question.get("choice")
                yield _Question(
                    id=f"{name}-{number}",
                    passage=passage,
                    question=question.get("question"),
                    options=options,
                    answer=question.get("answer"),
                    answers=options if isinstance(options, list) else (),
                    location=os.fspath(path),
                )
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: not the layout of DREAM ({error}); name another file"
        ) from None
