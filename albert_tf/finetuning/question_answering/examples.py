"""Question answering examples, and readers for SQuAD, XQuAD and CMRC 2018."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

from albert_tf.errors import InputError, shown
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
      start: Start in the context, in characters; -1 if the text is not there.
        Such answers can be used for scoring, but not for training.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringExample:
    """A question whose answer is a span of a context.

    Attributes:
      id: Unique within its file.
      answers: Right answers; empty if impossible or unknown.
      is_impossible: Whether the context does not answer the question.
      location: Location for error messages, "file, question ID".
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    location: str

    @property
    def has_label(self) -> bool:
        """Whether predictions can be scored."""
        return bool(self.answers or self.is_impossible)


def read_squad(
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
    repair_offsets: bool = False,
) -> Iterator[QuestionAnsweringExample]:
    """Reads the questions of a JSON file in SQuAD's layout or CMRC 2018's own.

    Answers in CMRC's own layout have no offsets; the first occurrence of their
    text is used. Of the 9657 answers in CMRC's dev file, 193 are not in the
    context, and 7 are not at their offset.

    Args:
      path: The file, optionally compressed with gzip.
      bad: Collects questions without text, context or id, with a duplicate id,
        or with answers that are missing, empty, contradict `is_impossible`, or
        are not at their offset.
      need_positions: Whether answers must be in the context, as required for
        training. Otherwise, the `start` of those that are not is -1.
      repair_offsets: Whether to move answers that are not at their offset to
        the nearest occurrence of their text.

    Raises:
      InputError: if the file cannot be read, is not JSON, has another layout,
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
    dataset: DatasetRows,
    *,
    impossible: bool,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
) -> Iterator[QuestionAnsweringExample]:
    """Reads SQuAD from a dataset library; see `read_squad`.

    Args:
      impossible: Whether questions without answers are impossible, as in
        SQuAD 2.0; Hugging Face's dataset does not mark them.
    """

    def question(row: dict[str, Any]) -> dict[str, Any]:
        columns = field(dataset, row, "answers")
        pairs = zip(columns["text"], columns["answer_start"], strict=True)
        answers = [{"text": x, "answer_start": start} for x, start in pairs]
        is_impossible = impossible and not answers
        return {"is_impossible": is_impossible, **row, "answers": answers}

    yield from _examples(
        (question(row) for _, row in numbered_rows(dataset)),
        dataset.name,
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
    """Checks questions with SQuAD's keys and `context`; yields examples."""
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
        raise InputError(f"{source}: no questions; give another file")


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
            for qa in paragraph["qas"]:
                yield {
                    "id": qa["query_id"],
                    "question": qa["query_text"],
                    "context": paragraph["context_text"],
                    "answers": [{"text": x} for x in qa.get("answers", ())],
                }
        return
    for article in value["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                yield {**qa, "context": paragraph["context"]}


# Texts and answers are of type Any here: they are checked question by question,
# so that bad questions can be skipped.


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
    source: str, number: int, question: Mapping[str, Any], seen: set[str]
) -> tuple[str, str]:
    """Returns the location of a question, and what is wrong with its texts."""
    name = question.get("id") or f"number {number}"
    if not isinstance(name, str):
        name = shown(name)
    location = f"{source}, question {name[:100]}"
    for key in ("id", "question", "context"):
        if problem := text_problem(question.get(key)):
            return location, f"{key} {problem}"
    if name in seen:
        return location, "duplicate id; remove one of the questions"
    seen.add(name)
    return location, ""


def _answers(
    question: Mapping[str, Any], need_positions: bool, repair_offsets: bool
) -> tuple[tuple[Answer, ...], str]:
    """Returns the answers of a question and "", or () and the problem."""
    context, values = question["context"], question.get("answers") or []
    if not isinstance(values, list):
        return (), "answers is not a list"
    if question.get("is_impossible"):
        return (), "is_impossible but has an answer" if values else ""
    if not values:
        problem = "no answer; give one, or mark the question with is_impossible"
        return (), problem
    answers = []
    for value in values:
        value = value if isinstance(value, dict) else {}
        text: Any = value.get("text")
        offset = value.get("answer_start")
        if isinstance(offset, float) and offset.is_integer():
            offset = int(offset)  # Written by pandas.
        if offset is not None and not isinstance(offset, int):
            return (), f"answer_start={shown(offset)} is not an integer"
        if problem := text_problem(text):
            return (), f"an answer {problem}"
        start = _find_answer(text, offset, context, repair_offsets)
        if start < 0 and need_positions:
            quoted = repr(text if len(text) <= 40 else f"{text[:37]}...")
            where = "" if offset is None else f" at character {offset}"
            hint = "occurs elsewhere" if text in context else "does not occur"
            problem = f"answer {quoted} is not in the context{where}; it {hint}"
            return (), problem
        answers.append(Answer(text=text, start=start))
    return tuple(answers), ""


def _find_answer(
    text: str, start: Any, context: str, repair_offsets: bool
) -> int:
    """Returns the start of an answer; -1 if it is not at its offset."""
    if start is None:
        return context.find(text)
    if start >= 0 and context.startswith(text, start):
        return start
    if not repair_offsets:
        return -1
    after = context.find(text, max(start, 0))
    before = context.rfind(text, 0, max(start, 0) + len(text))
    found = [at for at in (before, after) if at >= 0]
    return min(found, key=lambda at: abs(at - start), default=-1)


def right_answers(
    examples: Iterable[QuestionAnsweringExample],
) -> dict[str, list[str]]:
    """Returns the answers' texts by the ids of questions, which must differ."""
    right: dict[str, list[str]] = {}
    for example in examples:
        if example.id in right:
            raise InputError(
                f"{example.location}: a question of another file has this id, "
                "so they cannot be scored together; change one of the ids"
            )
        right[example.id] = [answer.text for answer in example.answers]
    return right
