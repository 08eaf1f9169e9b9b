"""Examples of multiple choice, read from the files of RACE and DREAM."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.text_files import (
    load_json,
    parse_json,
    read_lines,
    text_problem,
)

GROUPS = ("middle", "high")
_LETTERS = "ABCD"


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


def read_race(
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool = True,
    groups: Sequence[str] = GROUPS,
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
      groups: which of `GROUPS` are read.

    Yields:
      The questions; the group is the folder, or in a file of JSON lines what
      the id begins with. Ids are the passage's, a dash, and the number of the
      question, from 0 where the file does not give it.

    Raises:
      InputError: nothing of the kind is there; it cannot be read; or another
        group is asked for.
    """
    for group in groups:
        if group not in GROUPS:
            raise InputError(
                f"group {group!r} must be one of {', '.join(GROUPS)}"
            )
    passages = _passages(pathlib.Path(path), groups, bad)
    yield from race_examples(
        passages, os.fspath(path), bad=bad, labelled=labelled, groups=groups
    )


def race_examples(
    passages: Iterable[tuple[str, str | None, Mapping[str, Any]]],
    source: str,
    *,
    bad: BadExamples,
    labelled: bool = True,
    groups: Sequence[str] = GROUPS,
) -> Iterator[MultipleChoiceExample]:
    """Makes examples of passages that have been read, and checks them.

    Args:
      passages: locations, groups (None: as the id says) and what RACE says of a
        passage or a question.
      source: where they are from, for messages.
      bad, labelled, groups: see `read_race`.

    Raises:
      InputError: there are no questions.
    """
    seen: set[str] = set()
    found = False
    for location, folder, passage in passages:
        for question in _questions(passage):
            found = True
            group = folder or _group_of(question["id"])
            if group is not None and group not in groups:
                continue
            problem = _problem(question, labelled)
            if not problem and question["id"] in seen:
                problem = "another question has this id; remove one of them"
            if problem:
                bad.report(f"{location}, question {question['id']}", problem)
                continue
            seen.add(question["id"])
            answer = question["answer"]
            yield MultipleChoiceExample(
                id=question["id"],
                passage=question["article"],
                question=question["question"],
                options=tuple(question["options"]),
                label=_LETTERS.index(answer) if labelled else None,
                group=group,
                location=location,
            )
    if not found:
        raise InputError(f"{source}: no questions; name another file or folder")


def _passages(
    path: pathlib.Path, groups: Sequence[str], bad: BadExamples
) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yields locations, folders (None: it has none) and passages."""
    if not path.is_dir():
        yield from _lines(path, None, bad)
        return
    folders = [group for group in groups if (path / group).is_dir()]
    if not folders:
        raise InputError(
            f"{path}: has none of the folders {', '.join(groups)}; name the "
            "folder of a split, such as RACE/train"
        )
    for group in folders:
        for name in ("all.txt", "all.txt.gz"):
            if (path / group / name).exists():
                yield from _lines(path / group / name, group, bad)
                break
        else:
            files = (path / group).glob("*.txt")
            for file in sorted(files, key=lambda file: _number(file.name)):
                passage = _load(file, bad)
                if passage is not None:
                    yield str(file), group, passage


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


def _load(file: pathlib.Path, bad: BadExamples) -> dict[str, Any] | None:
    try:
        passage = load_json(file)
    except InputError as error:
        location, problem = str(error).split(": ", 1)
        bad.report(location, problem)
        return None
    if isinstance(passage, dict):
        return passage
    bad.report(str(file), "not a JSON object; get the file again")
    return None


def _questions(passage: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the questions of a passage, with the keys of a single one."""
    name = passage.get("id", passage.get("example_id", "without id"))
    article = passage.get("article")
    if "questions" not in passage:
        yield {
            "id": f"{name}-{passage.get('question_id', 0)}",
            "article": article,
            "question": passage.get("question"),
            "options": passage.get("options"),
            "answer": passage.get("answer"),
        }
        return
    lists = [passage.get(key) for key in ("questions", "options", "answers")]
    questions, options, answers = (
        each if isinstance(each, list) else [] for each in lists
    )
    for number, question in enumerate(questions):
        yield {
            "id": f"{name}-{number}",
            "article": article,
            "question": question,
            "options": options[number] if number < len(options) else None,
            "answer": answers[number] if number < len(answers) else None,
        }


def _problem(question: dict[str, Any], labelled: bool) -> str:
    """Says what is wrong with a question; "": nothing."""
    options = question["options"]
    if not isinstance(options, list) or len(options) != len(_LETTERS):
        return "not four options"
    texts = {"article": question["article"], "question": question["question"]}
    texts |= dict(zip(_LETTERS, options, strict=True))
    for name, text in texts.items():
        if problem := text_problem(text):
            what = name if len(name) > 1 else f"option {name}"
            return f"the {what} {problem}"
    answer = question["answer"]
    if labelled and (not isinstance(answer, str) or answer not in [*_LETTERS]):
        return f"answer {answer!r} is not one of {', '.join(_LETTERS)}"
    return ""


def _group_of(name: str) -> str | None:
    return next((group for group in GROUPS if name.startswith(group)), None)


def _number(name: str) -> tuple[int, str]:
    """Returns what sorts names by the numbers in them."""
    digits = re.search(r"\d+", name)
    return (int(digits[0]) if digits else -1, name)


NUM_OPTIONS = 3


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

    Yields:
      The questions; the passage is the turns with line feeds between them. Ids
      are the dialogue's, a dash, and the number of the question from 0.

    Raises:
      InputError: the file cannot be read, is not JSON, has another layout, or
        has no questions.
    """
    seen: set[str] = set()
    found = False
    for name, turns, question in _questions_dream(path):
        found = True
        location = f"{path}, question {name}"
        passage = "\n".join(turns)
        problem = _problem_dream(passage, question, labelled)
        if not problem and name in seen:
            problem = "another question has this id; remove one of them"
        if problem:
            bad.report(location, problem)
            continue
        seen.add(name)
        options = tuple(question["choice"])
        yield MultipleChoiceExample(
            id=name,
            passage=passage,
            question=question["question"],
            options=options,
            label=options.index(question["answer"]) if labelled else None,
            location=location,
        )
    if not found:
        raise InputError(f"{path}: the file has no questions; name another")


def _questions_dream(
    path: str | os.PathLike[str],
) -> Iterator[tuple[str, list[str], dict[str, Any]]]:
    """Yields ids of questions, turns of the dialogues, and questions."""
    value = load_json(path)
    try:
        for turns, questions, name in value:
            " ".join(turns)
            for number, question in enumerate(questions):
                question.items()
                yield f"{name}-{number}", turns, question
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: not the layout of DREAM ({error}); name another file"
        ) from None


def _problem_dream(
    passage: str, question: dict[str, Any], labelled: bool
) -> str:
    """Says what is wrong with a question; "": nothing."""
    options = question.get("choice")
    if not isinstance(options, list) or len(options) != NUM_OPTIONS:
        return f"not {NUM_OPTIONS} choices"
    texts = {"dialogue": passage, "question": question.get("question")}
    texts |= {f"choice {n}": option for n, option in enumerate(options, 1)}
    for name, text in texts.items():
        if problem := text_problem(text):
            return f"the {name} {problem}"
    if labelled and options.count(question.get("answer")) != 1:
        return "the answer must be one of the choices, and one only"
    return ""
