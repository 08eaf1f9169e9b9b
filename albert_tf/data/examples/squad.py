"""Questions about contexts: SQuAD 1.1 and 2.0, XQuAD and CMRC 2018."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.example import Answer, SpanExample
from albert_tf.data.examples.text_files import load_json, text_problem
from albert_tf.errors import InputError


def read_squad(
    path: str | os.PathLike[str],
    *,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
    repair_offsets: bool = False,
) -> Iterator[SpanExample]:
    """Reads the questions of a JSON file of SQuAD or one of its kind.

    CMRC 2018 comes in SQuAD's layout and in one of its own, whose answers have
    no offsets: there they are where their text first occurs. Of 9657 answers of
    its dev file 193 are not in the context at all, and 7 are at other offsets.

    Args:
      path: the file, perhaps packed with gzip; it is read as a whole.
      bad: is told of questions without a text, context or id, with the id of an
        earlier one, and with answers that are empty, wanted and lacking, given
        to an impossible question, or not where they are said to be.
      labelled: whether answers are read.
      need_positions: whether answers must be in the context, as for training.
        Where only their texts count, as in scoring, say no: then an answer that
        is elsewhere has `start` -1 and is no bad example.
      repair_offsets: whether an answer that is not at its offset is taken to be
        where its text occurs nearest to it.

    Yields:
      The questions in the order of the file.

    Raises:
      InputError: the file cannot be read, is not JSON, has another layout, or
        has no questions.
    """
    yield from span_examples(
        _questions(path),
        os.fspath(path),
        bad=bad,
        labelled=labelled,
        need_positions=need_positions,
        repair_offsets=repair_offsets,
    )


def span_examples(
    questions: Iterable[Mapping[str, Any]],
    source: str,
    *,
    bad: BadExamples,
    labelled: bool = True,
    need_positions: bool = True,
    repair_offsets: bool = False,
) -> Iterator[SpanExample]:
    """Makes examples of questions that have been read, and checks them.

    Args:
      questions: SQuAD's, each with its `context`.
      source: where they are from, for messages.
      bad, labelled, need_positions, repair_offsets: see `read_squad`.

    Raises:
      InputError: there are no questions.
    """
    seen: set[str] = set()
    number = 0
    for number, question in enumerate(questions, 1):
        place, problem = _place(source, number, question, seen)
        answers: tuple[Answer, ...] = ()
        if labelled and not problem:
            answers, problem = _answers(
                question, need_positions, repair_offsets
            )
        if problem:
            bad.report(place, problem)
            continue
        yield SpanExample(
            id=question["id"],
            question=question["question"],
            context=question["context"],
            answers=answers,
            is_impossible=labelled and bool(question.get("is_impossible")),
            place=place,
        )
    if not number:
        raise InputError(f"{source}: has no questions; name another file")


def _questions(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yields questions with SQuAD's keys and their contexts."""
    value = load_json(path)
    try:
        if isinstance(value, list):
            for paragraph in value:
                context = paragraph["context_text"]
                for each in paragraph["qas"]:
                    yield {
                        "id": each["query_id"],
                        "question": each["query_text"],
                        "context": context,
                        "answers": [
                            {"text": text} for text in each.get("answers", ())
                        ],
                    }
            return
        for article in value["data"]:
            for paragraph in article["paragraphs"]:
                for each in paragraph["qas"]:
                    yield {**each, "context": paragraph["context"]}
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: neither SQuAD's layout nor that of CMRC 2018 "
            f"({type(error).__name__}: {error}); name another file"
        ) from None


def _place(
    source: str,
    number: int,
    question: Mapping[str, Any],
    seen: set[str],
) -> tuple[str, str]:
    """Returns where a question is, and what is wrong but for its answers."""
    for key in ("id", "question", "context"):
        if problem := text_problem(question.get(key)):
            name = question.get("id") or f"number {number}"
            return f"{source}, question {name}", f"{key} {problem}"
    name = question["id"]
    place = f"{source}, question {name}"
    if name in seen:
        return place, "another question has this id; remove one of them"
    seen.add(name)
    return place, ""


def _answers(
    question: Mapping[str, Any], need_positions: bool, repair_offsets: bool
) -> tuple[tuple[Answer, ...], str]:
    """Returns the answers of a question, or what is wrong with them."""
    given = question.get("answers") or []
    if question.get("is_impossible"):
        return (), "impossible, but has an answer" if given else ""
    if not given:
        return (), "no answer; give one, or say is_impossible"
    answers = []
    for each in given:
        each = each if isinstance(each, dict) else {}
        text, start = each.get("text"), each.get("answer_start")
        if problem := text_problem(text):
            return (), f"an answer {problem}"
        at = _start_of(text, start, question["context"], repair_offsets)
        if at < 0 and need_positions:
            shown = text if len(text) <= 40 else f"{text[:37]}..."
            where = "" if start is None else f" at character {start}"
            there = text in question["context"]
            hint = "occurs elsewhere" if there else "does not occur at all"
            return (), f"answer {shown!r} is not{where} of the context; {hint}"
        answers.append(Answer(text=text, start=at))
    return tuple(answers), ""


def _start_of(text: str, start: Any, context: str, repair_offsets: bool) -> int:
    """Returns where an answer begins; -1: not where it is said to be."""
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
