"""Input and output of the commands that read texts, one per line."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from albert_tf.errors import InputError
from albert_tf.files import check_not_input, new_file
from albert_tf.input_files import numbered_lines, open_input
from albert_tf.settings import described, setting

STDIN = "/dev/stdin"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextLinesFlags:
    """Flags for a pretrained model, its input and its output."""

    model: str = dataclasses.field(
        metadata=described(
            "Checkpoint in any supported format, with its tokenizer: a folder, "
            "a file or a name. Required."
        )
    )
    text: str | None = setting(None, "A text.")
    input: str | None = setting(
        None, "File with one text per line. Default: standard input."
    )
    output: str | None = setting(None, "Output file. Default: standard output.")
    eval_batch_size: int = setting(32, "Batch size.", bounds="[1, 1048576]")


def texts_of(given: TextLinesFlags) -> Iterable[str]:
    """Returns the input texts; lines are read lazily.

    Raises:
      InputError: if both --text and --input are given, if the input does not
        exist, is empty or is not UTF-8, or if the output would overwrite it.
    """
    if given.text is not None and given.input is not None:
        raise InputError("give either --text or --input")
    if given.output is not None:
        inputs = [given.model, given.input or STDIN]
        check_not_input(given.output, [x for x in inputs if os.path.exists(x)])
    if given.text is not None:
        return [given.text]
    if given.input is None:
        return _not_empty(standard_input_lines(), "standard input")
    return _not_empty(
        _decoded(open_input(given.input), given.input), given.input
    )


def _not_empty(lines: Iterable[str], source: str) -> Iterator[str]:
    empty = True
    for line in lines:
        empty = False
        yield line
    if empty:
        raise InputError(f"{source} has no text")


def standard_input_lines() -> Iterator[str]:
    """Yields the lines of standard input.

    Raises:
      InputError: if a line is not UTF-8.
    """
    return _decoded(sys.stdin.buffer, "standard input")


def _decoded(file: IO[bytes], source: str) -> Iterator[str]:
    for number, line in numbered_lines(file, source):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source}:{number}: byte {error.start + 1} of the line is not "
                "UTF-8; convert it, e.g. with iconv"
            ) from None
        yield text.rstrip("\r\n")


def write_lines(lines: Iterable[str], output: str | None) -> None:
    """Writes lines to a file, or prints each as soon as it is available."""
    with contextlib.ExitStack() as stack:
        file = sys.stdout
        if output is not None:
            file = stack.enter_context(new_file(output))
        for line in lines:
            file.write(f"{line}\n")
