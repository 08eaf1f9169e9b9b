"""Texts of a command: one on the command line, or the lines of a file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterable, Iterator

from albert_tf.errors import InputError
from albert_tf.files import check_not_input, new_file, open_bytes
from albert_tf.settings import described, setting

STDIN = "/dev/stdin"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextLinesFlags:
    """A pretrained model, texts, and where the results go."""

    model: str = dataclasses.field(
        metadata=described(
            "Checkpoint of any system, with its tokenizer: a folder, a file or "
            "a name. Required."
        )
    )
    text: str | None = setting(None, "A text.")
    input: str | None = setting(
        None, "File with a text a line; without, standard input."
    )
    output: str | None = setting(None, "File of results.")
    eval_batch_size: int = setting(
        32, "Texts of a batch.", bounds="[1, 1048576]"
    )


def texts_of(given: TextLinesFlags) -> Iterable[str]:
    """Returns the texts that the flags name; lines are read as they come.

    Raises:
      InputError: two sources are given, the input is not there or not UTF-8,
        or the output would destroy it.
    """
    if given.text is not None and given.input is not None:
        raise InputError("give either --text or --input")
    if given.output is not None:
        inputs = [given.model, given.input or STDIN]
        check_not_input(given.output, [x for x in inputs if os.path.exists(x)])
    if given.text is not None:
        return [given.text]
    if given.input is None:
        return standard_input_lines()
    return _decoded(open_bytes(given.input), given.input)


def standard_input_lines() -> Iterator[str]:
    """Yields the lines of standard input as they come.

    Raises:
      InputError: one is not UTF-8.
    """
    return _decoded(sys.stdin.buffer, "standard input")


def _decoded(lines: Iterable[bytes], source: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source}:{number}: byte {error.start + 1} of the line is not "
                "UTF-8; convert it, e.g. with iconv"
            ) from None
        yield text.rstrip("\r\n")


def pair_texts_of(
    given: TextLinesFlags, pair: str | None
) -> Iterable[tuple[str, str]]:
    """Returns the pairs that the flags name; lines are read as they come.

    Args:
      given: the flags.
      pair: the second text, with --text.

    Raises:
      InputError: as `texts_of`; --text has no --pair or the reverse; or a line
        has not one tab.
    """
    if (given.text is None) != (pair is None):
        raise InputError("--text and --pair require each other")
    texts = texts_of(given)
    if pair is not None:
        return [(text, pair) for text in texts]
    return _split(texts, given.input or "standard input")


def _split(lines: Iterable[str], source: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 2:
            raise InputError(
                f"{source}:{number}: expected two texts separated by a tab, "
                f"not {len(parts)}"
            )
        yield parts[0], parts[1]


def write_lines(lines: Iterable[str], output: str | None) -> None:
    """Writes lines to a file, or prints them as they come."""
    with contextlib.ExitStack() as stack:
        file = sys.stdout
        if output is not None:
            file = stack.enter_context(new_file(output))
        for line in lines:
            file.write(f"{line}\n")
