"""Text for the demo, and passages labelled with their source."""

from __future__ import annotations

import ast
import collections
import dataclasses
import importlib.util
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from albert_tf.data.data_config import ReadingConfig
from albert_tf.data.documents import (
    read_corpus,
    read_documents,
    split_documents,
)
from albert_tf.data.text_files import find_text_files
from albert_tf.errors import InputError


def write_default_text(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the English prose in the docstrings of installed packages.

    Returns:
      The files, one for each source, with `text_format="lines"`.
    """
    # Written as "prose" first, so that reading it splits the sentences.
    prose: dict[str, list[str]] = collections.defaultdict(list)
    for source, paragraphs in python_documents():
        prose[source].append("\n\n".join(paragraphs) + "\n\n\n")
    files = []
    for source, pages in prose.items():
        path = folder / f"{source}.prose"
        path.write_text("".join(pages), "utf-8")
        documents = read_documents(path, ReadingConfig(text_format="prose"))
        files.append(_write(folder, source, documents))
        path.unlink()
    return files


def write_user_text(
    folder: pathlib.Path, patterns: str, config: ReadingConfig
) -> list[pathlib.Path]:
    """Writes each file of the user that has text, with a sentence per line.

    Raises:
      InputError: if no file has text, or one cannot be read.
    """
    files = []
    for number, path in enumerate(find_text_files(patterns)):
        file = _write(folder, f"{number:03}", read_corpus([path], config))
        if file.stat().st_size:
            files.append(file)
        else:
            file.unlink()
    if not files:
        raise InputError(f"input {patterns}: the files contain no text")
    return files


def _write(
    folder: pathlib.Path, name: str, documents: Iterable[list[str]]
) -> pathlib.Path:
    path = folder / f"{name}.txt"
    with open(path, "w", encoding="utf-8") as file:
        for part in split_documents(documents):
            file.write("\n".join(part) + "\n\n")
    return path


# Required dependencies whose docstrings are prose, largest first.
PACKAGES = ("tensorflow", "numpy", "keras", "absl", "tf_keras", "matplotlib")

# Prose begins with a capital and ends with punctuation; other paragraphs are
# code, tables, headings or lists of arguments.
_PROSE = re.compile(r"[A-Z\"'`*(][^\n]*[.!?:)\"']$")
_MARKUP = re.compile(r"``?|\*\*?|:[a-z]+:(?=`)|(?<!\w)_(?=\w)|\|")
_CODE_SIGNS = re.compile(r"Args:|>>>|\.\. |::|==|[{}\\<>=;@#]|\w\(\w*\)|://")
_MIN_WORDS = 8
_MIN_LETTERS = 0.75  # share of letters and spaces in a paragraph


def python_documents(
    packages: Iterable[str] = PACKAGES,
) -> Iterator[tuple[str, list[str]]]:
    """Yields documents as (source, paragraphs of English prose).

    A document is a topic of Python's language reference, or all docstrings of
    one module; the source is "python" or the name of the package. Repeated
    paragraphs are dropped: copied docstrings are common, and held-out documents
    must not repeat training text.

    Args:
      packages: Names of packages; those that are not installed are skipped.
    """
    seen: set[str] = set()
    for source, text in _texts(packages):
        paragraphs = []
        for paragraph in prose_paragraphs(text):
            key = paragraph.lower()
            if key not in seen:
                seen.add(key)
                paragraphs.append(paragraph)
        if len(paragraphs) > 1:
            yield source, paragraphs


def prose_paragraphs(text: str) -> list[str]:
    """Returns the paragraphs of a docstring that are English prose."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        paragraph = _MARKUP.sub("", " ".join(block.split()))
        words = paragraph.split()
        letters = sum(c.isalpha() or c == " " for c in paragraph)
        if (
            len(words) >= _MIN_WORDS
            and _PROSE.match(paragraph)
            and not _CODE_SIGNS.search(paragraph)
            and letters >= _MIN_LETTERS * len(paragraph)
        ):
            found.append(paragraph)
    return found


def _texts(packages: Iterable[str]) -> Iterator[tuple[str, str]]:
    from pydoc_data import topics

    for name in sorted(topics.topics):
        yield "python", topics.topics[name]
    standard_library = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(standard_library.glob("*.py")):
        yield "python", "\n\n".join(_docstrings(file))
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            folder = pathlib.Path(spec.origin).parent
            for file in sorted(folder.rglob("*.py")):
                yield name, "\n\n".join(_docstrings(file))


def _docstrings(file: pathlib.Path) -> Iterator[str]:
    source = file.read_bytes()
    if b'"""' not in source:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escape sequences
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # not valid Python, such as a template
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


_SENTENCES_PER_PASSAGE = 2


@dataclasses.dataclass(frozen=True)
class LabelledPassages:
    """Passages from two sources; training and test documents are disjoint.

    Attributes:
      sources: Names of the sources, indexed by label.
      train: (label, passage) pairs for training, balanced by label.
      test: The same for testing.
    """

    sources: tuple[str, str]
    train: list[tuple[int, str]]
    test: list[tuple[int, str]]


def label_passages(
    files: Sequence[pathlib.Path], train_size: int, test_size: int, seed: int
) -> LabelledPassages:
    """Samples passages from the two largest files, or two halves of one.

    Args:
      files: Text files with one sentence per line.
      train_size: Maximum number of training passages.
      test_size: Maximum number of test passages.
      seed: Random seed.

    Raises:
      InputError: if there are none, as the files have too few documents of
        several sentences.
    """
    largest = sorted(files, key=lambda path: -path.stat().st_size)[:2]
    if len(largest) == 2:
        names = (largest[0].stem, largest[1].stem)
        sources = [list(read_documents(path)) for path in largest]
    else:
        names = ("first half", "second half")
        documents = list(read_documents(largest[0]))
        middle = len(documents) // 2
        sources = [documents[:middle], documents[middle:]]
    rng = np.random.default_rng(seed)
    sets = {"train": [], "test": []}
    for name, size in (("test", test_size), ("train", train_size)):
        sampled = [_shuffled(source, name, rng) for source in sources]
        count = min(size // 2, *map(len, sampled))
        for label, passages in enumerate(sampled):
            sets[name] += [(label, text) for text in passages[:count]]
        rng.shuffle(sets[name])
        if not sets[name]:
            raise InputError(
                f"the classifier's passages of {names[0]} and {names[1]}: too "
                "few documents of several sentences; separate documents by "
                "blank lines, or give more text"
            )
    return LabelledPassages(
        sources=names,
        train=[(int(label), str(text)) for label, text in sets["train"]],
        test=[(int(label), str(text)) for label, text in sets["test"]],
    )


def _shuffled(documents, split, rng) -> list[str]:
    """Returns shuffled passages; every fourth document is for testing."""
    passages = [
        " ".join(document[start : start + _SENTENCES_PER_PASSAGE])
        for number, document in enumerate(documents)
        if (number % 4 == 0) == (split == "test")
        for start in range(0, len(document) - 1, _SENTENCES_PER_PASSAGE)
    ]
    rng.shuffle(passages)
    return passages
