"""Examples to predict: files, lines of a stream, texts of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from albert_tf.data.examples.example import (
    SpanExample,
    TextExample,
    WordsExample,
)
from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.description import TaskDescription


def examples_of_lines(
    description: TaskDescription, lines: Iterable[str], name: str
) -> Iterator[TextExample | WordsExample]:
    """Makes an example of each line that is not blank.

    A line is a text, or two with a tab between them where the task has pairs;
    or a sentence of words with blanks between them.

    Args:
      description: of the task.
      lines: any number, read one by one.
      name: what to call them in errors.

    Raises:
      InputError: a line is not what the task takes, or the task takes no lines.
    """
    if description.kind not in ("classes", "number", "words"):
        raise InputError(
            f"{name}: lines are no input of the task {description.name}; name "
            "a file in its format"
        )
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        place = f"{name}:{number + 1}"
        if description.kind == "words":
            words = tuple(line.split())
            yield WordsExample(id=str(number), words=words, place=place)
            continue
        text, tab, pair = line.rstrip("\r\n").partition("\t")
        yield text_example(
            description, text, pair if tab else None, str(number), place
        )


def text_example(
    description: TaskDescription,
    text: str,
    pair: str | None,
    name: str = "0",
    place: str = "--text",
) -> TextExample:
    """Returns an example of a text, or of two.

    Args:
      description: of the task.
      text: the text.
      pair: the second text; None: there is none.
      name: its id.
      place: for errors.

    Raises:
      InputError: one is empty, or there are not as many as the task takes.
    """
    if description.kind not in ("classes", "number"):
        raise InputError(
            f"{place}: a text is no input of the task {description.name}"
        )
    if description.source["pair"] is None and pair is not None:
        raise InputError(
            f"{place}: the task {description.name} takes one text, not two"
        )
    if description.source["pair"] is not None and pair is None:
        raise InputError(
            f"{place}: the task {description.name} takes two texts: --text and "
            "--pair, or a line with a tab between them"
        )
    if not text.strip() or (pair is not None and not pair.strip()):
        raise InputError(f"{place}: a text is empty")
    return TextExample(id=name, text=text, pair=pair, place=place)


def question_example(
    description: TaskDescription, question: str, context: str
) -> SpanExample:
    """Returns a question about a context.

    Raises:
      InputError: one is empty, or the task has no questions.
    """
    if description.kind != "spans":
        raise InputError(
            f"--question: the task {description.name} has no questions about a "
            "context"
        )
    for name, text in (("question", question), ("context", context)):
        if not text.strip():
            raise InputError(f"--{name} is empty")
    return SpanExample(
        id="0", question=question, context=context, place="--question"
    )
