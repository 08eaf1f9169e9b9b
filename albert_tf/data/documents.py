"""Text files as documents: lists of sentences, read one document at a time."""

from __future__ import annotations

import glob
import gzip
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Sequence

import sentencex

from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns

TEXT_FORMATS = ("lines", "prose", "wikiextractor")

# Documents are held in memory one at a time, and a file without a single blank
# line is one document. Longer ones are cut at a sentence end; War and Peace has
# 3.2 million characters.
MAX_DOCUMENT_CHARACTERS = 16_000_000


def find_text_files(
    patterns: str | os.PathLike[str] | Sequence[str],
) -> list[pathlib.Path]:
    """Returns the files that glob patterns name, each once.

    Args:
      patterns: patterns separated by commas, or a list of patterns (whose
        commas mean themselves). `**` matches folders at any depth.

    Returns:
      The files in the order of the patterns, sorted within a pattern.

    Raises:
      InputError: no pattern, or one that matches nothing or an empty file.
    """
    patterns = list(filter(None, split_patterns(patterns)))
    if not patterns:
        raise InputError("input: no file named; give a path or a glob pattern")
    files: dict[pathlib.Path, None] = {}
    for pattern in patterns:
        if "://" in pattern:
            raise InputError(
                f"input {pattern}: text is read from local files; copy it here"
            )
        if os.path.exists(pattern):
            matches = [pattern]  # perhaps with the characters of a pattern
        else:
            matches = sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise InputError(
                f"input {pattern}: no such file; check the path or the pattern"
            )
        matches = [path for path in matches if not os.path.isdir(path)]
        if not matches:
            raise InputError(
                f"input {pattern}: only folders match; name the files, e.g. "
                f"{os.path.join(pattern, '*')}"
            )
        for path in matches:
            if os.path.getsize(path) == 0:
                raise InputError(f"input {path}: the file is empty; remove it")
            files[pathlib.Path(path)] = None
    return list(files)


def read_documents(
    path: str | os.PathLike[str],
    text_format: str = "lines",
    language: str = "en",
) -> Iterator[list[str]]:
    """Reads the documents of one UTF-8 file; a name in `.gz` is unpacked.

    A document ends at the latest with the file, unlike in the original, which
    glued a file without a last blank line to the next one.

    Args:
      path: the file. A byte-order mark and CRLF line ends are accepted.
      text_format: how the file is to be read.
        "lines": one sentence a line; a blank line ends a document.
        "prose": paragraphs separated by one blank line, their lines joined and
          split into sentences by the sentencex library; two or more blank
          lines or a form feed end a document.
        "wikiextractor": output of WikiExtractor: `<doc ...>` and `</doc>`
          lines enclose a document, every line between is a paragraph, split as
          prose is.
      language: code of the language (ISO 639) whose rules split sentences.

    Yields:
      Documents of at least one sentence; sentences are stripped, not empty.
      Documents of more than `MAX_DOCUMENT_CHARACTERS` come in several pieces.

    Raises:
      InputError: the file cannot be read, holds a line that is not UTF-8 (the
        message names it) or holds no text.
    """
    if text_format not in TEXT_FORMATS:
        raise InputError(
            f"text_format={text_format!r} must be one of "
            f"{', '.join(TEXT_FORMATS)}"
        )
    lines = _read_lines(pathlib.Path(path))
    if text_format == "lines":
        sentences = _sentences_of_lines(lines)
    elif text_format == "prose":
        sentences = _sentences_of_prose(lines, language)
    else:
        sentences = _sentences_of_wikiextractor(lines, language)
    return _documents(sentences, path)


def _documents(
    sentences: Iterable[str | None], path: str | os.PathLike[str]
) -> Iterator[list[str]]:
    """Collects sentences up to each None, which marks a document's end."""
    document: list[str] = []
    characters = 0
    empty = True
    for sentence in sentences:
        if sentence:
            document.append(sentence)
            characters += len(sentence)
        if document and (
            sentence is None or characters > MAX_DOCUMENT_CHARACTERS
        ):
            yield document
            empty = False
            document = []
            characters = 0
    if document:
        yield document
    elif empty:
        raise InputError(f"{path}: the file holds no text; remove it")


def _read_lines(path: pathlib.Path) -> Iterator[str]:
    """Yields decoded lines with their line ends."""
    opener = gzip.open if path.suffix == ".gz" else open
    encoding = "utf-8-sig"
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield line.decode(encoding)
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number}: byte {error.start + 1} is not "
                        "UTF-8; convert the file, e.g. with iconv"
                    ) from None
                encoding = "utf-8"
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be read: {reason}") from None
    except (EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: the gzip stream is damaged ({error}); get the file again"
        ) from None


def _sentences_of_lines(lines: Iterable[str]) -> Iterator[str | None]:
    for line in lines:
        yield line.strip() or None


def _sentences_of_prose(
    lines: Iterable[str], language: str
) -> Iterator[str | None]:
    paragraph: list[str] = []
    blank_lines = 0
    for line in lines:
        for page, text in enumerate(line.split("\f")):
            if page or not text.strip():
                yield from _split(" ".join(paragraph), language)
                paragraph = []
                blank_lines += 1
            if page or blank_lines == 2:
                yield None
            if text.strip():
                paragraph.append(text.strip())
                blank_lines = 0
    yield from _split(" ".join(paragraph), language)


def _sentences_of_wikiextractor(
    lines: Iterable[str], language: str
) -> Iterator[str | None]:
    for line in lines:
        if line.startswith(("<doc ", "</doc>")):
            yield None
        else:
            yield from _split(line.strip(), language)


def _split(paragraph: str, language: str) -> Iterator[str]:
    for sentence in sentencex.segment(language, paragraph):
        yield sentence.strip()
