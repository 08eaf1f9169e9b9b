"""Documents read from text files, and blocks of documents as units of work."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from albert_tf.data.data_config import ReadingConfig
from albert_tf.data.paragraphs import join_lines, split_paragraph
from albert_tf.data.text_files import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    TextSlice,
    read_lines,
    split_long_lines,
)
from albert_tf.data.tfds import is_tfds_file, read_tfds_texts
from albert_tf.errors import InputError, shown
from albert_tf.files import Path
from albert_tf.input_files import parse_object

# The number of a line, the offset of a piece in it, and the piece.
_Line = tuple[int, int, str]

# Name -> description of oddities of a text that is otherwise read as usual.
ODDITIES = {
    "blank_files": "files without text, skipped",
    "invalid_utf8": "U+FFFD in place of bytes that are not UTF-8",
    "nul_characters": "NUL characters, kept as text",
    "carriage_returns": "carriage returns within lines, kept as text; a line "
    "ends with LF or CRLF",
    "control_pieces": "special tokens spelled out, kept as text",
}

_COUNTED = {"nul_characters": "\0", "carriage_returns": "\r"}

# Longer documents are cut after a sentence, as one document is in memory at a
# time and a file without a blank line is a single document. War and Peace has
# 3.2 million characters.
MAX_DOCUMENT_CHARACTERS = 4_000_000

# Sentences of a part of a document; see `split_documents`.
_PART_SENTENCES = 60


def read_documents(
    path: Path, config: ReadingConfig | None = None
) -> Iterator[list[str]]:
    """Reads the documents of a UTF-8 file.

    A document ends with the file at the latest. (The original continued it in
    the next file if there was no blank line at the end.)

    Args:
      path: the file; `.gz`, `.bz2` and `.zst` files are decompressed. A
        byte-order mark and CRLF line ends are accepted. In a record file of
        TensorFlow Datasets, an example is a document, split as in "jsonl".
      config: how other files are read; default: `ReadingConfig()`. The
        paragraphs of all formats but "lines" are split into sentences by the
        sentencex library. In "prose", a form feed ends a document, too, and the
        lines of a paragraph are joined by spaces, but not between characters of
        Chinese, Japanese, Thai, Lao, Khmer or Burmese. In "wikiextractor",
        every line between `<doc ...>` and `</doc>` is a paragraph; in "jsonl",
        every line of a text, and blank texts are skipped.

    Yields:
      Documents as lists of at least one sentence, which are stripped and not
      empty. Documents of more than `MAX_DOCUMENT_CHARACTERS` are split.

    Raises:
      InputError: if the file cannot be read, is not a text file or contains no
        text, or a line is not UTF-8 or, in "jsonl", has no text. The message
        has the number of the line.
    """
    counts: collections.Counter[str] = collections.Counter()
    yield from read_corpus([path], config or ReadingConfig(), counts)
    if counts["blank_files"]:
        raise InputError(f"{path}: the file contains no text; remove it")


def split_documents(documents: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yields documents in parts of at most `_PART_SENTENCES` sentences.

    So a part of the text can be held out even if it is a few long documents,
    such as books.
    """
    for document in documents:
        for start in range(0, len(document), _PART_SENTENCES):
            yield document[start : start + _PART_SENTENCES]


def _read(
    path: Path | TextSlice,
    config: ReadingConfig,
    counts: collections.Counter[str],
) -> Iterator[list[str]]:
    """Reads the documents of a file, which may have none."""
    text_format, language = config.text_format, config.language
    if is_tfds_file(path):
        texts = read_tfds_texts(
            path, config.text_field, config.encoding_errors, counts
        )
        return _documents(_sentences_of_texts(texts, language), counts)
    lines = read_lines(
        path,
        whole=text_format == "jsonl",
        encoding_errors=config.encoding_errors,
        counts=counts,
    )
    # A part of a file may begin with anything.
    is_part = isinstance(path, TextSlice) and path.start > 0
    if text_format in ("lines", "prose") and not is_part:
        lines = _checked_lines(lines, path, config)
    if text_format == "lines":
        sentences = (line.strip() or None for _, _, line in lines)
    elif text_format == "prose":
        sentences = _sentences_of_prose(lines, language)
    elif text_format == "wikiextractor":
        sentences = _sentences_of_wikiextractor(lines, path, language)
    else:
        texts = _texts_of_jsonl(lines, path, config.text_field)
        sentences = _sentences_of_texts(texts, language)
    return _documents(sentences, counts)


def _checked_lines(
    lines: Iterable[_Line], path: Path | TextSlice, config: ReadingConfig
) -> Iterator[_Line]:
    """Yields lines of plain text, after a look at the first that is not blank.

    Raises:
      InputError: if it is a JSON object with a text, or a tag of WikiExtractor.
    """
    lines = iter(lines)
    for number, start, line in lines:
        found = "wikiextractor" if line.startswith("<doc id=") else None
        if line.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                values = json.loads(line)
                if isinstance(values.get(config.text_field), str):
                    found = "jsonl"
        if found is not None:
            raise InputError(
                f"{path}:{number}: {shown(line)} is not plain text; read the "
                f"file with text_format={found}"
            )
        yield number, start, line
        if line.strip():
            break
    yield from lines


def read_corpus(
    files: Iterable[Path | TextSlice],
    config: ReadingConfig,
    counts: collections.Counter[str] | None = None,
) -> Iterator[list[str]]:
    """Reads the documents of files in order; see `read_documents`.

    Files without text are skipped. The numbers of these and of other `ODDITIES`
    of the files are added to `counts`.
    """
    counts = collections.Counter() if counts is None else counts
    for path in files:
        is_blank = True
        for document in _read(path, config, counts):
            yield document
            is_blank = False
        if is_blank and not isinstance(path, TextSlice):
            counts["blank_files"] += 1


def describe_oddities(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields a line for each of the `ODDITIES` with a count."""
    for name, description in ODDITIES.items():
        if counts.get(name):
            yield f"text: {counts[name]:,} {description}"


def _documents(
    sentences: Iterable[str | None], counts: collections.Counter[str]
) -> Iterator[list[str]]:
    """Groups sentences into documents, which end at each None."""
    document: list[str] = []
    characters = 0
    for sentence in sentences:
        if sentence:
            document.append(sentence)
            for name, character in _COUNTED.items():
                if character in sentence:
                    counts[name] += sentence.count(character)
            characters += len(sentence)
        if document and (
            sentence is None or characters > MAX_DOCUMENT_CHARACTERS
        ):
            yield document
            document = []
            characters = 0
    if document:
        yield document


def _sentences_of_prose(
    lines: Iterable[_Line], language: str
) -> Iterator[str | None]:
    paragraph: list[str] = []
    characters = blank_lines = 0
    for _, _, line in lines:
        for page, text in enumerate(line.split("\f")):
            if page or not text.strip():
                yield from split_paragraph(join_lines(paragraph), language)
                paragraph, characters = [], 0
                blank_lines += 1
            if page or blank_lines == 2:
                yield None
            if text.strip():
                if characters > MAX_LINE_BYTES:
                    yield from split_paragraph(join_lines(paragraph), language)
                    paragraph, characters = [], 0
                paragraph.append(text.strip())
                characters += len(text)
                blank_lines = 0
    yield from split_paragraph(join_lines(paragraph), language)


def _sentences_of_wikiextractor(
    lines: Iterable[_Line], path: Path | TextSlice, language: str
) -> Iterator[str | None]:
    tagged = isinstance(path, TextSlice)  # It may have no end of a document.
    has_text = False
    for _, start, line in lines:
        if start == 0 and line.startswith(("<doc ", "</doc>")):
            tagged = True
            yield None
        elif line.strip():
            has_text = True
            yield from split_paragraph(line.strip(), language)
    if has_text and not tagged:
        raise InputError(
            f"{path}: no line begins with <doc, as in WikiExtractor's files; "
            "read those of its --json with text_format=jsonl"
        )


def _texts_of_jsonl(
    lines: Iterable[_Line], path: Path, text_field: str
) -> Iterator[str]:
    for number, _, line in lines:
        # Each of the files that were concatenated may have begun with one.
        line = line.removeprefix(BYTE_ORDER_MARK)
        if not line.strip():
            continue
        source = f"{path}:{number}"
        values = parse_object(line, source)
        if text_field not in values:
            found = ", ".join(map(shown, values)) or "none"
            raise InputError(
                f"{source}: has no field {text_field!r} (its fields: {found}); "
                "choose another one with text_field"
            )
        text = values[text_field]
        if not isinstance(text, str):
            raise InputError(
                f"{source}: {text_field}={shown(text)} must be a string"
            )
        yield text


def _sentences_of_texts(
    texts: Iterable[str], language: str
) -> Iterator[str | None]:
    """Yields None, and then the sentences, for each text."""
    for text in texts:
        yield None
        for _, _, paragraph in split_long_lines(io.BytesIO(text.encode())):
            yield from split_paragraph(paragraph.decode().strip(), language)


@dataclasses.dataclass(frozen=True)
class TextBlock:
    """Consecutive documents of a split.

    Attributes:
      split: "train" or "heldout".
      index: number of the block, unique within its split.
      documents: documents as lists of sentences.
      num_bytes: size of the documents, in UTF-8.
    """

    split: str
    index: int
    documents: list[list[str]]
    num_bytes: int


def make_blocks(
    documents: Iterable[list[str]],
    block_bytes: int,
    *,
    heldout_fraction: float = 0.0,
    seed: int = 0,
    first_index: int = 0,
) -> Iterator[TextBlock]:
    """Groups documents into blocks of two splits.

    A block has at least `block_bytes`, except for the last of its split. The
    expected share `heldout_fraction` of the documents is in the split
    "heldout"; see `is_heldout`. The first block of each split has the number
    `first_index`.

    Yields:
      Blocks in the order in which they are filled.
    """
    pending: dict[str, list[list[str]]] = {"train": [], "heldout": []}
    sizes = dict.fromkeys(pending, 0)
    numbers = dict.fromkeys(pending, first_index)

    def complete(split: str) -> TextBlock:
        block = TextBlock(split, numbers[split], pending[split], sizes[split])
        pending[split], sizes[split] = [], 0
        numbers[split] += 1
        return block

    for document in documents:
        text = document_text(document)
        heldout = is_heldout(text, heldout_fraction, seed)
        split = "heldout" if heldout else "train"
        pending[split].append(document)
        sizes[split] += len(text) + 1
        if sizes[split] >= block_bytes:
            yield complete(split)
    for split in pending:
        if pending[split]:
            yield complete(split)


def document_text(document: Sequence[str]) -> bytes:
    """Returns the text of a document, with a sentence per line, in UTF-8."""
    return "\n".join(document).encode()


def is_heldout(text: bytes, heldout_fraction: float, seed: int) -> bool:
    """Returns whether a document is held out for evaluation.

    A hash of its `document_text` and the seed decides, so that equal documents
    are in the same split, in whatever files they are.
    """
    return uniform_hash(text, seed) < heldout_fraction


def uniform_hash(text: bytes, seed: int) -> float:
    """Hashes a text and a seed to a number that is uniform in [0, 1)."""
    digest = hashlib.blake2b(text, digest_size=8, key=str(seed).encode())
    return int.from_bytes(digest.digest(), "big") / 2**64
