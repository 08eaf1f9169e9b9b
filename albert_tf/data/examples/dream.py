"""DREAM: questions about dialogues, with three options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.example import ChoiceExample
from albert_tf.data.examples.text_files import load_json, text_problem
from albert_tf.errors import InputError

NUM_OPTIONS = 3


def read_dream(
    path: str | os.PathLike[str], *, bad: BadExamples, labelled: bool = True
) -> Iterator[ChoiceExample]:
    """Reads the questions of a JSON file of DREAM.

    Args:
      path: a list of dialogues `[turns, questions, id]`, where a question has
        `question`, `choice` and `answer`, the right choice's text.
      bad: is told of questions with an empty text, not three choices, an answer
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
    for name, turns, question in _questions(path):
        found = True
        place = f"{path}, question {name}"
        passage = "\n".join(turns)
        problem = _problem(passage, question, labelled)
        if not problem and name in seen:
            problem = "another question has this id; remove one of them"
        if problem:
            bad.report(place, problem)
            continue
        seen.add(name)
        options = tuple(question["choice"])
        yield ChoiceExample(
            id=name,
            passage=passage,
            question=question["question"],
            options=options,
            label=options.index(question["answer"]) if labelled else None,
            place=place,
        )
    if not found:
        raise InputError(f"{path}: the file has no questions; name another")


def _questions(
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


def _problem(passage: str, question: dict[str, Any], labelled: bool) -> str:
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
