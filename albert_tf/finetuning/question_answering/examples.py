"""Examples of question answering: SQuAD 1.1 and 2.0, XQuAD and CMRC 2018."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples, load_json, text_problem
from albert_tf.finetuning.library_datasets import (
    DatasetRows,
    field,
    numbered_rows,
)
from albert_tf.schema import type_problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """A right answer to a question.

    Attributes:
      text: Text of the answer.
      start: Where it begins in the context, in characters; -1 if it is not in
        the context: such an answer serves for scoring, but not for training.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringExample:
    """A question whose answer is a span of a context.

    Attributes:
      id: Unique within its file.
      question: Text of the question.
      context: Text that answers it.
      answers: Right answers; empty if impossible or unknown.
      is_impossible: Whether the context does not answer the question.
      location: Where it was read, for messages: "file, question ID".
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    location: str


def read_squad(
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
    repair_offsets: bool = False,
) -> Iterator[QuestionAnsweringExample]:
    """Reads the questions of a JSON file in SQuAD's layout or CMRC 2018's own.

    Answers in CMRC's own layout have no offsets; they are found where their
    text first occurs. Of 9657 answers of CMRC's dev file 193 are not in the
    context at all, and 7 are not at their offset.

    Args:
      path: The file, optionally compressed with gzip; it is read as a whole.
      bad: Collects questions with a missing text, context or id or with the id
        of an earlier one, and questions whose answers are missing, empty,
        given although impossible, or not at their offset.
      labelled: Whether to read answers.
      need_positions: Whether answers must be in the context, as for training.
        Otherwise, as for scoring, an answer that is not has `start` -1.
      repair_offsets: Whether to move an answer that is not at its offset to
        the nearest occurrence of its text.

    Yields:
      The questions in the order of the file.

    Raises:
      InputError: If the file cannot be read, is not JSON, has another layout,
        or has no questions.
    """
    yield from _examples(
        _questions(path),
        os.fspath(path),
        bad=bad,
        labelled=labelled,
        need_positions=need_positions,
        repair_offsets=repair_offsets,
    )


def read_squad_rows(
    part: DatasetRows,
    *,
    impossible: bool,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
) -> Iterator[QuestionAnsweringExample]:
    """Reads SQuAD from a library of data sets.

    Args:
      part: The data set.
      impossible: Whether questions without answers are impossible, as in
        SQuAD 2.0; Hugging Face's library does not mark them.
      bad, labelled, need_positions: See `read_squad`.

    Raises:
      InputError: If a field is missing, or there are no questions.
    """

    def question(row: dict[str, Any]) -> dict[str, Any]:
        given = field(part, row, "answers")
        pairs = zip(given["text"], given["answer_start"], strict=True)
        answers = [{"text": x, "answer_start": start} for x, start in pairs]
        none = impossible and not answers
        return {"is_impossible": none, **row, "answers": answers}

    yield from _examples(
        (question(row) for _, row in numbered_rows(part)),
        part.name,
        bad=bad,
        labelled=labelled,
        need_positions=need_positions,
    )


def _examples(
    questions: Iterable[Mapping[str, Any]],
    source: str,
    *,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
    repair_offsets: bool = False,
) -> Iterator[QuestionAnsweringExample]:
    """Checks questions with SQuAD's keys and a `context`; yields examples."""
    seen: set[str] = set()
    number = 0
    for number, question in enumerate(questions, 1):
        location, problem = _location(source, number, question, seen)
        answers: tuple[Answer, ...] = ()
        if labelled and not problem:
            answers, problem = _answers(
                question, need_positions, repair_offsets
            )
        if problem:
            bad.report(location, problem)
            continue
        yield QuestionAnsweringExample(
            id=question["id"],
            question=question["question"],
            context=question["context"],
            answers=answers,
            is_impossible=labelled and bool(question.get("is_impossible")),
            location=location,
        )
    if not number:
        raise InputError(f"{source}: no questions")


def _questions(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yields questions with SQuAD's keys and their contexts."""
    value = load_json(path)
    layout = list[_CMRCParagraph] if isinstance(value, list) else _SQuAD
    problem = type_problem(value, layout, "")
    if problem:
        raise InputError(
            f"{path}: neither in SQuAD's nor in CMRC 2018's layout ({problem})"
        )
    if isinstance(value, list):
        for paragraph in value:
            for each in paragraph["qas"]:
                yield {
                    "id": each["query_id"],
                    "question": each["query_text"],
                    "context": paragraph["context_text"],
                    "answers": [{"text": x} for x in each.get("answers", ())],
                }
        return
    for article in value["data"]:
        for paragraph in article["paragraphs"]:
            for each in paragraph["qas"]:
                yield {**each, "context": paragraph["context"]}


# The texts and answers of a question are checked question by question, so that
# bad ones can be skipped.


class _Paragraph(TypedDict):
    context: Any
    qas: list[Mapping[str, Any]]


class _Article(TypedDict):
    paragraphs: list[_Paragraph]


class _SQuAD(TypedDict):
    data: list[_Article]


class _CMRCAnswers(TypedDict, total=False):
    answers: list[Any]


class _CMRCQuestion(_CMRCAnswers):
    query_id: Any
    query_text: Any


class _CMRCParagraph(TypedDict):
    context_text: Any
    qas: list[_CMRCQuestion]


def _location(
    source: str,
    number: int,
    question: Mapping[str, Any],
    seen: set[str],
) -> tuple[str, str]:
    """Returns where a question is, and its problem other than its answers."""
    for key in ("id", "question", "context"):
        if problem := text_problem(question.get(key)):
            name = question.get("id") or f"number {number}"
            return f"{source}, question {name}", f"{key} {problem}"
    name = question["id"]
    location = f"{source}, question {name}"
    if name in seen:
        return location, "duplicate id; remove one of the questions"
    seen.add(name)
    return location, ""


def _answers(
    question: Mapping[str, Any], need_positions: bool, repair_offsets: bool
) -> tuple[tuple[Answer, ...], str]:
    """Returns the answers of a question, or their problem."""
    given = question.get("answers") or []
    if not isinstance(given, list):
        return (), "answers is no list"
    if question.get("is_impossible"):
        return (), "is_impossible but has an answer" if given else ""
    if not given:
        return (
            (),
            "no answer; give one, or mark the question with is_impossible",
        )
    answers = []
    for each in given:
        each = each if isinstance(each, dict) else {}
        text: Any = each.get("text")
        start = each.get("answer_start")
        if problem := text_problem(text):
            return (), f"an answer {problem}"
        at = _start_of(text, start, question["context"], repair_offsets)
        if at < 0 and need_positions:
            shown = text if len(text) <= 40 else f"{text[:37]}..."
            where = "" if start is None else f" at character {start}"
            there = text in question["context"]
            hint = "it occurs elsewhere" if there else "it does not occur"
            return (), f"answer {shown!r} is not in the context{where}; {hint}"
        answers.append(Answer(text=text, start=at))
    return tuple(answers), ""


def _start_of(text: str, start: Any, context: str, repair_offsets: bool) -> int:
    """Returns where an answer begins; -1 if it is not at its offset."""
    if start is None:
        return context.find(text)
    if not isinstance(start, int):
        return -1
    if start >= 0 and context.startswith(text, start):
        return start
    if not repair_offsets:
        return -1
    after = context.find(text, max(start, 0))
    before = context.rfind(text, 0, max(start, 0) + len(text))
    found = [at for at in (before, after) if at >= 0]
    return min(found, key=lambda at: abs(at - start), default=-1)
