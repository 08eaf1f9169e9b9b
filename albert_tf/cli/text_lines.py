"""Input and output of the commands that read texts, one per line.

Each line of the input is a text, and gives a result: an empty line is an empty
text. A line that cannot be used ends the command with an error that names it;
the results of the lines before it are printed, but no file is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NoReturn

from albert_tf.data.file_formats import HEAD_BYTES, check_is_text
from albert_tf.errors import InputError
from albert_tf.files import check_not_input, new_file
from albert_tf.finetuning.examples import decoded_lines
from albert_tf.finetuning.table_writing import TableWriter, output_format
from albert_tf.finetuning.tables import Format
from albert_tf.input_files import open_decompressed
from albert_tf.runtimes.config import Runtime, runtime_setting
from albert_tf.settings import described, setting

STDIN = "/dev/stdin"
STANDARD_INPUT = "standard input"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResultsFlags:
    """Flags for how results are computed and written."""

    output: str | None = setting(None, "Output file. Default: standard output.")
    format: Format | None = setting(
        None,
        "Output format; jsonl has all fields. Default: by the extension of "
        "--output, otherwise plain lines, as on standard output.",
    )
    eval_batch_size: int = setting(32, "Batch size.", bounds="[1, 1048576]")
    runtime: Runtime = runtime_setting()


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextLinesFlags(ResultsFlags):
    """Flags for a pretrained model, its input and its output."""

    model: str = dataclasses.field(
        metadata=described(
            "Checkpoint in any supported format, with its tokenizer: a folder, "
            "a file or a name such as albert_tiny_en, which is part of the "
            "package. Required."
        )
    )
    text: str | None = setting(None, "A text.")
    input: str | None = setting(
        None,
        "File with one text per line, perhaps compressed (.gz, .bz2, .zst). "
        "Default: standard input.",
    )

    @property
    def source(self) -> str:
        """Name of the input, for error messages."""
        return self.input or STANDARD_INPUT


def texts_of(given: TextLinesFlags, *, array: bool = False) -> Iterable[str]:
    """Returns the input texts; lines are read lazily.

    The flags must fit each other and the files. `array` is whether the output
    is an array, in none of the formats.
    """
    if given.text is not None and given.input is not None:
        raise InputError("give either --text or --input")
    if given.output is not None:
        inputs = [given.model, given.input or STDIN]
        check_not_input(given.output, [x for x in inputs if os.path.exists(x)])
        if not array:
            output_format(given.output, given.format, "tsv")
    if given.text is not None:
        return [given.text]
    if given.input is not None:
        with open_decompressed(given.input) as file:
            check_is_text(file.read(HEAD_BYTES), given.input)
    return _lines(given.input)


def _lines(path: str | None) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        file: IO[bytes] = sys.stdin.buffer
        if path is not None:
            file = stack.enter_context(open_decompressed(path))
        for line in _decoded(file, path or STANDARD_INPUT, _stop):
            if line is not None:
                yield line


def _stop(location: str, problem: str) -> NoReturn:
    raise InputError(f"{location}: {problem}")


def standard_input_lines(
    report: Callable[[str, str], None],
) -> Iterator[str | None]:
    """Yields the lines of standard input, of which there must be at least one.

    `report` takes the location of a line that is not UTF-8, and the problem. If
    it returns, None is yielded for the line.
    """
    return _decoded(sys.stdin.buffer, STANDARD_INPUT, report)


def _decoded(
    file: IO[bytes], source: str, report: Callable[[str, str], None]
) -> Iterator[str | None]:
    empty = True
    for _, text in decoded_lines(file, source, report):
        empty = False
        yield text
    if empty:
        raise InputError(f"{source} has no text")


def write_results(
    results: Iterable[tuple[Any, Sequence[Mapping[str, Any]]]],
    given: TextLinesFlags,
    default: Format,
) -> None:
    """Writes results to a file, or prints each as soon as it is available.

    `results` has a JSON value and rows of a table for each text; the format of
    the output determines which of them is written. `default` is the format of
    standard output.
    """
    form = output_format(given.output, given.format, default)
    with contextlib.ExitStack() as stack:
        file = sys.stdout
        if given.output is not None:
            file = stack.enter_context(new_file(given.output))
        writer = TableWriter(file, form)
        for value, rows in results:
            writer.write(value, rows)
