"""Documents of text files, and blocks of them as units of work."""

from __future__ import annotations

import dataclasses
import glob
import gzip
import hashlib
import io
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator
from typing import get_args

import sentencex

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns, split_patterns
from albert_tf.pretraining.data_config import TextFormat

# Documents are held in memory one at a time, and a file without a single blank
# line is one document. Longer ones are cut at a sentence end; War and Peace has
# 3.2 million characters.
MAX_DOCUMENT_CHARACTERS = 16_000_000

# Longer lines and paragraphs are cut at a blank, to be sentences of their own.
MAX_LINE_BYTES = 1 << 20


def find_text_files(patterns: PathPatterns) -> list[pathlib.Path]:
    """Returns the files that glob patterns name, each once.

    Args:
      patterns: patterns separated by commas, or a list of patterns (whose
        commas mean themselves). `**` matches folders at any depth.

    Returns:
      The files in the order of the patterns, sorted within a pattern.

    Raises:
      InputError: no pattern, or one that matches nothing or an empty file.
    """
    names = list(filter(None, split_patterns(patterns)))
    if not names:
        raise InputError("input: no file named; give a path or a glob pattern")
    files: dict[pathlib.Path, None] = {}
    for pattern in names:
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
    if text_format not in get_args(TextFormat):
        raise InputError(
            f"text_format={text_format!r} must be one of "
            f"{', '.join(get_args(TextFormat))}"
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
    """Yields decoded lines with their line ends, long ones in pieces."""
    opener = gzip.open if path.suffix == ".gz" else open
    encoding = "utf-8-sig"
    try:
        with opener(path, "rb") as file:
            for number, start, piece in _pieces_of_lines(file):
                try:
                    text = piece.decode(encoding)
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"{path}, line {number}: byte "
                        f"{start + error.start + 1} is not UTF-8; convert the "
                        "file, e.g. with iconv"
                    ) from None
                encoding = "utf-8"
                yield text
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be read: {reason}") from None
    except (EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: the gzip stream is damaged ({error}); get the file again"
        ) from None


def _pieces_of_lines(
    file: io.BufferedReader | gzip.GzipFile,
) -> Iterator[tuple[int, int, bytes]]:
    """Yields lines, those of more than `MAX_LINE_BYTES` in pieces.

    A piece ends after a blank or, where there is none, after a character.
    Pieces that are blank are skipped: they are no blank line.

    Yields:
      Number of the line, offset of the piece in it, and the piece.
    """
    number, start, rest = 1, 0, b""
    while piece := rest + file.readline(MAX_LINE_BYTES - len(rest)):
        end = len(piece)
        is_last = piece.endswith(b"\n") or end < MAX_LINE_BYTES
        if not is_last:
            end = piece.rfind(b" ") + 1 or _end_of_characters(piece)
        if (start == 0 and is_last) or piece[:end].strip():
            yield number, start, piece[:end]
        rest = piece[end:]
        number, start = (number + 1, 0) if is_last else (number, start + end)


def _end_of_characters(text: bytes) -> int:
    """Returns where the last whole character of text in UTF-8 ends."""
    start = next(
        (i for i in range(1, 5) if text[-i] & 0b11000000 != 0b10000000), 1
    )
    whole = len(text[-start:].decode("utf-8", "ignore")) == 1
    return len(text) if whole else len(text) - start


def _sentences_of_lines(lines: Iterable[str]) -> Iterator[str | None]:
    for line in lines:
        yield line.strip() or None


def _sentences_of_prose(
    lines: Iterable[str], language: str
) -> Iterator[str | None]:
    paragraph: list[str] = []
    characters = blank_lines = 0
    for line in lines:
        for page, text in enumerate(line.split("\f")):
            if page or not text.strip():
                yield from _split(" ".join(paragraph), language)
                paragraph, characters = [], 0
                blank_lines += 1
            if page or blank_lines == 2:
                yield None
            if text.strip():
                if characters > MAX_LINE_BYTES:
                    yield from _split(" ".join(paragraph), language)
                    paragraph, characters = [], 0
                paragraph.append(text.strip())
                characters += len(text)
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


@dataclasses.dataclass(frozen=True)
class TextBlock:
    """Consecutive documents of a split.

    Attributes:
      split: "train" or "heldout".
      index: number of the block within its split.
      documents: lists of sentences.
      num_bytes: their size in UTF-8.
    """

    split: str
    index: int
    documents: list[list[str]]
    num_bytes: int


def read_blocks(
    files: Iterable[pathlib.Path],
    block_bytes: int,
    *,
    text_format: str = "lines",
    language: str = "en",
    heldout_fraction: float = 0.0,
    seed: int = 0,
) -> Iterator[TextBlock]:
    """Reads files and deals their documents out to blocks of two splits.

    A block may span files and is complete with the document that fills it. What
    a block holds depends on the arguments alone.

    Args:
      files: text files, in the order they are read.
      block_bytes: least size of a block that is not its split's last.
      text_format: see `read_documents`.
      language: see `read_documents`.
      heldout_fraction: expected share of the documents in the split "heldout".
      seed: choice of those documents; equal texts are in the same split.

    Yields:
      Blocks in the order they are complete.
    """
    documents: dict[str, list[list[str]]] = {"train": [], "heldout": []}
    sizes = dict.fromkeys(documents, 0)
    numbers = dict.fromkeys(documents, 0)

    def complete(split: str) -> TextBlock:
        block = TextBlock(split, numbers[split], documents[split], sizes[split])
        documents[split], sizes[split] = [], 0
        numbers[split] += 1
        return block

    for path in files:
        for document in read_documents(path, text_format, language):
            text = "\n".join(document).encode()
            heldout = _uniform(text, seed) < heldout_fraction
            split = "heldout" if heldout else "train"
            documents[split].append(document)
            sizes[split] += len(text) + 1
            if sizes[split] >= block_bytes:
                yield complete(split)
    for split in documents:
        if documents[split]:
            yield complete(split)


def _uniform(text: bytes, seed: int) -> float:
    """Returns a number in [0, 1) made from a text and a seed."""
    digest = hashlib.blake2b(text, digest_size=8, key=str(seed).encode())
    return int.from_bytes(digest.digest(), "big") / 2**64
