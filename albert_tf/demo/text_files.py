"""The demo's text: one file a source, a sentence a line."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Iterable

from albert_tf.data.documents import find_text_files, read_documents
from albert_tf.demo.python_docs import python_documents

# Some books are one document. Cut into pieces, some of them can be held out.
_MAX_SENTENCES = 60


def write_default_text(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the English text that the installed packages contain.

    Returns:
      One file for each source, in the format "lines".
    """
    # A file as "prose", for the library that splits sentences to read.
    prose: dict[str, list[str]] = collections.defaultdict(list)
    for source, paragraphs in python_documents():
        prose[source].append("\n\n".join(paragraphs) + "\n\n\n")
    files = []
    for source, documents in prose.items():
        path = folder / f"{source}.prose"
        path.write_text("".join(documents), "utf-8")
        files.append(_write(folder, source, read_documents(path, "prose")))
        path.unlink()
    return files


def write_user_text(
    folder: pathlib.Path, patterns: str, text_format: str, language: str
) -> list[pathlib.Path]:
    """Writes the user's text as one file of lines for each of their files."""
    files = []
    for number, path in enumerate(find_text_files(patterns)):
        documents = read_documents(path, text_format, language)
        files.append(_write(folder, f"{number:03}", documents))
    return files


def _write(
    folder: pathlib.Path, name: str, documents: Iterable[list[str]]
) -> pathlib.Path:
    path = folder / f"{name}.txt"
    with open(path, "w", encoding="utf-8") as file:
        for document in documents:
            for start in range(0, len(document), _MAX_SENTENCES):
                lines = document[start : start + _MAX_SENTENCES]
                file.write("\n".join(lines) + "\n\n")
    return path
