"""Examples as read: texts, choices, spans and words, with their places."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextExample:
    """One text or two, to be classified or given a number.

    Attributes:
      id: unique within its file.
      text: the text, or the first of two, as it was in the file.
      pair: the second text; None: the task has one only.
      label: one of the task's labels, or a number; None: not known.
      place: where it was read, for messages: "file:line".
    """

    id: str
    text: str
    pair: str | None = None
    label: str | float | None = None
    place: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChoiceExample:
    """A question about a passage with several possible answers.

    Attributes:
      id: unique within its source.
      passage: what the question is about.
      question: the question, or a sentence with the blank `_`.
      options: the possible answers, two or more.
      label: index of the right one in `options`; None: not known.
      group: a part of the data that is also scored by itself.
      place: where it was read, for messages.
    """

    id: str
    passage: str
    question: str
    options: tuple[str, ...]
    label: int | None = None
    group: str | None = None
    place: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """A right answer to a question about a context.

    Attributes:
      text: the answer.
      start: the character of the context at which it begins; -1: it is not in
        the context, so that it can be scored with but not be learnt.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanExample:
    """A question whose answer is a part of a context.

    Attributes:
      id: unique within its file.
      question: the question.
      context: what it is about.
      answers: right answers; empty: impossible or not known.
      is_impossible: the context does not answer the question.
      place: where it was read, for messages: "file, question ID".
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    place: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordsExample:
    """A sentence of words with a label each.

    Attributes:
      id: unique within its file.
      words: the words, none of them empty.
      labels: one a word; None: not known.
      place: where it was read, for messages: "file:line" of the first word.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    place: str
