"""What a run trains on and is scored on: examples read and made to rows."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Any

from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.data.examples.named_sources import NamedSplit
from albert_tf.data.features.cache import cache_key, cached
from albert_tf.data.features.rows import Rows
from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.kinds.base import Prepared, TaskKind
from albert_tf.tasks.finetuning.task_files import (
    Source,
    files_below,
    read_examples,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """The files, or the splits of a library's data sets, of a run.

    Attributes:
      train: what to train on.
      dev: those that decide which checkpoint is the best; none: the last one
        is taken.
      on_bad_example: see `BadExamples`.
    """

    train: Sequence[Source]
    dev: Sequence[Source] = ()
    on_bad_example: str = "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskData:
    """The data of a run.

    Attributes:
      rows: to train on, with labels.
      dev: to be scored on; None: there is none.
      identity: what a resume must agree on, as JSON values.
    """

    rows: Rows
    dev: Prepared | None
    identity: dict[str, Any]


def load_data(
    kind: TaskKind,
    files: TaskFiles,
    cache_dir: str | os.PathLike[str] | None = None,
) -> TaskData:
    """Reads the examples, and makes rows of them.

    Examples that are left out are counted and listed on stderr, those of cached
    rows with the names that their files had when they were read.

    Args:
      kind: of the task.
      files: what to read.
      cache_dir: where the rows of training are kept; None: nowhere.

    Raises:
      InputError: a file cannot be read, an example cannot be used, or there is
        none left.
    """
    description = kind.description
    key = _key(kind, files.train, files.on_bad_example)

    def make() -> tuple[Rows, str]:
        bad = BadExamples(files.on_bad_example)
        rows = kind.training_rows(
            example
            for source in files.train
            for example in read_examples(
                description, source, bad=bad, labelled=True, training=True
            )
        )
        return rows, _left_out(bad)

    rows, left_out = cached(cache_dir, key, make)
    _tell(left_out, files.train)
    if not rows.num_examples:
        raise InputError(
            f"{', '.join(map(str, files.train))}: no example to train on"
        )
    dev = None
    if files.dev:
        examples = labelled_examples(
            description, files.dev, files.on_bad_example
        )
        kind.check_scores(examples)
        dev = kind.prepare(examples)
    # Which weights are the best hangs on what they are scored on.
    dev_key = _key(kind, files.dev, files.on_bad_example)
    identity = {**key, "dev_files": dev_key["files"]}
    identity |= {f"dev_{name}": x for name, x in _splits(files.dev).items()}
    return TaskData(rows=rows, dev=dev, identity=identity)


def labelled_examples(
    description: TaskDescription,
    sources: Sequence[Source],
    on_bad_example: str = "stop",
) -> list[Any]:
    """Returns the examples of some sources, with labels, to be scored on.

    Examples that are left out are counted and listed on stderr.

    Args:
      description: of the task.
      sources: what to read.
      on_bad_example: see `BadExamples`.

    Raises:
      InputError: a file cannot be read, an example cannot be used, or there is
        none left.
    """
    bad = BadExamples(on_bad_example)
    files_below(sources)  # Says so where one is not there.
    examples = [
        example
        for source in sources
        for example in read_examples(
            description, source, bad=bad, labelled=True
        )
    ]
    _tell(_left_out(bad), sources)
    if not examples:
        raise InputError(
            f"{', '.join(map(str, sources))}: no example to score is left"
        )
    return examples


def _key(
    kind: TaskKind, sources: Sequence[Source], on_bad_example: str
) -> dict[str, Any]:
    description = kind.description
    return cache_key(
        task=description.name,
        tokenizer=kind.tokenizer,
        settings={
            "kind": description.kind,
            "labels": description.labels,
            "source": description.source,
            "on_bad_example": on_bad_example,
            **description.settings,
            **_splits(sources),
        },
        files=files_below(sources),
    )


def _splits(sources: Sequence[Source]) -> dict[str, Any]:
    """Returns the splits of libraries: their files may have others, too."""
    named = [each for each in sources if isinstance(each, NamedSplit)]
    return {"splits": [each.their_split for each in named]} if named else {}


def _left_out(bad: BadExamples) -> str:
    return bad.summary() if bad.counted else ""


def _tell(left_out: str, sources: Sequence[Source]) -> None:
    if left_out:
        names = ", ".join(map(str, sources))
        print(f"{names}: {left_out}", file=sys.stderr, flush=True)
