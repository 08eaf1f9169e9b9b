"""Multiple-choice examples, and readers for RACE and DREAM."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import (
    BadExamples,
    json_lines,
    load_json,
    text_problem,
)
from albert_tf.finetuning.task_config import TaskConfig

DEFAULT_SETTINGS = {"max_seq_length": 512, "max_qa_length": 128}

_SPLITS = ("train", "dev", "test")

RACE, DREAM = (
    TaskConfig(
        name=name,
        task_type="multiple_choice",
        metrics=("accuracy",),
        settings=DEFAULT_SETTINGS,
        source={
            "reader": name,
            "folder": folder,
            "files": {split: split + ending for split in _SPLITS},
        },
    )
    for name, folder, ending in (
        ("race", "RACE", ""),
        ("dream", "dream", ".json"),
    )
)

GROUPS = ("middle", "high")
_LETTERS = ("A", "B", "C", "D")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceExample:
    """A question about a passage, with answer options.

    Attributes:
      id: unique id within the source.
      question: the question, or a sentence with the blank `_`.
      options: two or more possible answers.
      label: index of the right option; None if unknown.
      group: subset of the data that is also scored separately, if any.
      location: location in the source, for error messages.
    """

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    group: str | None = None
    location: str

    @property
    def has_label(self) -> bool:
        """Whether predictions can be scored."""
        return self.label is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Question:
    """A question before it is checked; `answers` are the possible labels."""

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
    """Yields examples for valid questions, and reports the others."""
    seen: set[str] = set()
    is_empty = True
    for question in questions:
        is_empty = False
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
    if is_empty:
        raise InputError(f"{source}: no questions; give another file or folder")


def _problem(question: _Question, num_options: int, labelled: bool) -> str:
    """Returns what is wrong with a question; "" if nothing is."""
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
    path: str | os.PathLike[str], *, bad: BadExamples, labelled: bool = True
) -> Iterator[MultipleChoiceExample]:
    """Reads the questions of a split of RACE.

    Ids consist of the passage's id, a dash, and the index of the question. The
    group is the subfolder, or in JSON Lines the prefix of the id.

    Args:
      path: a folder with the subfolders `middle` and `high`, each with one file
        per passage, as distributed, or with one passage per line of `all.txt`,
        as the original expects; or a JSON Lines file of passages with
        `questions`, `options` and `answers`, or of questions with `question`,
        `options` and `answer`.
      bad: collects unreadable passages, and questions with an empty text, a
        number of options other than four, an answer other than A to D, or a
        duplicate id.

    Raises:
      InputError: if the files do not exist or cannot be read.
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
    """Checks parsed passages of RACE and converts them to examples.

    Args:
      passages: locations, groups (None: the prefix of the id), and passages or
        questions with RACE's keys.
      bad, labelled: see `read_race`.
    """
    numbers: Counter[str] = Counter()
    questions = (
        question
        for location, folder, passage in passages
        for question in _questions_of_race(location, folder, passage, numbers)
    )
    return _checked(
        questions, source, len(_LETTERS), bad=bad, labelled=labelled
    )


def _passages(
    path: pathlib.Path, bad: BadExamples
) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yields locations, subfolders (None for a file) and passages."""
    if not path.is_dir():
        yield from _lines(path, None, bad)
        return
    folders = [group for group in GROUPS if (path / group).is_dir()]
    if not folders:
        raise InputError(
            f"{path}: has none of the folders {', '.join(GROUPS)}; give the "
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
                    problem = "not a JSON object; download the file again"
                    bad.report(str(file), problem)


def _lines(
    path: pathlib.Path, group: str | None, bad: BadExamples
) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yields the location, the group and the value of each JSON line."""
    for number, value in json_lines(path, bad):
        if value is not None:
            yield f"{path}:{number}", group, value


def _questions_of_race(
    location: str,
    folder: str | None,
    passage: Mapping[str, Any],
    numbers: Counter[str],
) -> Iterator[_Question]:
    """Yields the questions of a passage, or a single question.

    A single question is numbered by those of its passage before it, which
    `numbers` counts by the passage's id, unless it has a `question_id`.
    """
    name = passage.get("id", passage.get("example_id", "without id"))
    if "questions" in passage:
        lists = [passage.get(x) for x in ("questions", "options", "answers")]
        lists = [x if isinstance(x, list) else [] for x in lists]
        rows = itertools.zip_longest(range(len(lists[0])), *lists)
    else:
        keys = ("question", "options", "answer")
        number = passage.get("question_id", numbers[str(name)])
        numbers[str(name)] += 1
        rows = [(number, *(passage.get(key) for key in keys))]
    for number, question, options, answer in rows:
        if number is None:  # There are more options or answers than questions.
            return
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

    The passage consists of the turns, joined by line feeds. Ids consist of the
    dialogue's id, a dash, and the index of the question.

    Args:
      path: a file with a list of dialogues `[turns, questions, id]`. Questions
        have `question`, `choice` and `answer`, the text of the right choice.
      bad: collects questions with an empty text, a number of choices other than
        three, an answer that is not exactly one of them, or a duplicate id.

    Raises:
      InputError: if the file cannot be read, is not JSON, has another layout or
        no questions.
    """
    questions = _questions_of_dream(path)
    return _checked(questions, os.fspath(path), 3, bad=bad, labelled=labelled)


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
            f"{path}: not in DREAM's layout ({error}); give another file"
        ) from None
