"""Examples as texts by name, as users give them and exports take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.task_type import TaskType

# Input of exports -> the text of an example, if their names differ.
_TEXTS = {"text_pair": "pair"}


def text_ranks(task_type: TaskType) -> dict[str, int]:
    """Returns the ranks of the texts that an example must have, by name."""
    inputs = task_type.serving_forms["serving_default"]
    return {_TEXTS.get(name, name): rank for name, rank in inputs.items()}


def make_example(
    task_type: TaskType, texts: Mapping[str, Any], id: str, location: str = ""
) -> Any:
    """Makes an unlabelled example from texts by name.

    `texts` are strings, or for texts of rank 2 lists of them.

    Raises:
      InputError: if the texts are not those of an example.
    """
    required = text_ranks(task_type)
    known = {*required, *task_type.optional_texts}
    if not required.keys() <= texts.keys() <= known:
        given = " and ".join(map(str, texts)) or "nothing"
        given = given if len(given) <= 80 else f"{given[:77]}..."
        raise InputError(
            f"the task {task_type.task_config.name} takes "
            f"{' and '.join(required)}, not {given}"
        )
    return task_type.example(texts, id, location)


def reads_lines(task_type: TaskType) -> bool:
    """Returns whether a line of text is an example, see `make_example`."""
    return "text" in text_ranks(task_type)


def examples_from_lines(
    task_type: TaskType,
    lines: Iterable[str | None],
    name: str,
    bad: BadExamples,
) -> Iterator[Any]:
    """Yields an example for each line, whose ID is the number of the line.

    A line is a text, or several with tabs between them if examples may have
    several. A blank line is empty texts; None is a line that has been reported.

    Raises:
      InputError: if the task is not one of texts.
    """
    if not reads_lines(task_type):
        raise InputError(
            f"the task {task_type.task_config.name} does not read examples "
            "from lines; give a file in its format"
        )
    required = list(text_ranks(task_type))
    names = [*required, *task_type.optional_texts]
    for number, line in enumerate(lines):
        if line is None:
            continue
        location = f"{name}:{number + 1}"
        if line.strip():
            texts = line.split("\t") if len(names) > 1 else [line]
        else:
            texts = [line, *[""] * (len(required) - 1)]
        try:
            if not len(required) <= len(texts) <= len(names):
                numbers = sorted({len(required), len(names)})
                takes = " or ".join(map(str, numbers))
                raise InputError(
                    f"the task {task_type.task_config.name} takes {takes} "
                    f"texts separated by tabs, not {len(texts)}"
                )
            example = make_example(
                task_type,
                dict(zip(names, texts, strict=False)),
                str(number),
                location,
            )
        except InputError as error:
            bad.report(location, str(error))
        else:
            yield example


def sample_texts(
    task_type: TaskType, texts: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the texts of examples that are made of arbitrary texts."""
    samples = []
    for number in range(len(texts)):
        sample: dict[str, Any] = {}
        for place, (name, rank) in enumerate(text_ranks(task_type).items()):
            text = texts[number - place]
            sample[name] = text
            if rank == 2:
                sample[name] = [text, texts[number - place - 1], "_"]
        try:
            make_example(task_type, sample, "")
        except InputError:  # Questions are not empty.
            continue
        samples.append(sample)
    return samples


def serving_inputs(
    task_type: TaskType, samples: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """Returns the texts of examples as inputs of an export, by name."""
    return {
        name: [sample[_TEXTS.get(name, name)] for sample in samples]
        for name in task_type.serving_forms["serving_default"]
    }


def served_arrays(
    task_type: TaskType, predictions: Sequence[Any]
) -> dict[str, np.ndarray]:
    """Returns the outputs of an export that predictions stand for.

    Arrays of different lengths, such as those of words, are padded with zeros.
    """
    rows = [task_type.served(prediction) for prediction in predictions]
    arrays = {}
    for name in rows[0]:
        values = [np.asarray(row[name]) for row in rows]
        if values[0].dtype.kind == "U":
            arrays[name] = np.char.encode(np.array(values), "utf-8")
            continue
        longest = np.max([x.shape for x in values], axis=0, initial=0)
        shape = (len(values), *longest.astype(int))
        arrays[name] = np.zeros(shape, values[0].dtype)
        for number, value in enumerate(values):
            place = (number, *map(slice, value.shape))
            arrays[name][place] = value
    return arrays
