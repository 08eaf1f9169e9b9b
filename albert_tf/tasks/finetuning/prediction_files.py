"""Predictions as lines of a file: tab-separated, or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from albert_tf.tasks.finetuning.kinds.base import TaskKind

FORMATS = ("tsv", "jsonl")
_LINE_BREAKS = re.compile(r"[\t\r\n]+")


class PredictionWriter:
    """Writes predictions one by one.

    Args:
      file: where to.
      kind: of the task.
      format: "jsonl": an object a line; "tsv": a table with a header, but for
        words, which are a line each, with a blank line after a sentence, as in
        CoNLL's files.
    """

    def __init__(self, file: TextIO, kind: TaskKind, format: str):
        self._file = file
        self._kind = kind
        self._format = format
        self._has_header = False

    def write(
        self, examples: Sequence[Any], predictions: Sequence[Any]
    ) -> None:
        """Writes the predictions of some examples."""
        for example, prediction in zip(examples, predictions, strict=True):
            record = self._kind.record(example, prediction)
            if self._format == "jsonl":
                line = json.dumps(record, ensure_ascii=False)
                self._file.write(f"{line}\n")
            elif "words" in record:
                pairs = zip(record["words"], record["labels"], strict=True)
                lines = [f"{word}\t{label}\n" for word, label in pairs]
                self._file.write("".join([*lines, "\n"]))
            else:
                self._write_row(_cells(record))

    def _write_row(self, cells: Mapping[str, str]) -> None:
        if not self._has_header:
            self._file.write("\t".join(cells) + "\n")
            self._has_header = True
        self._file.write("\t".join(cells.values()) + "\n")


def _cells(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns the columns of a record; lists have none."""
    cells = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            cells |= _cells(value)
        elif isinstance(value, float):
            cells[name] = f"{value:.6f}"
        elif not isinstance(value, list):
            cells[name] = _LINE_BREAKS.sub(" ", str(value))
    return cells
