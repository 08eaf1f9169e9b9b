"""English text that every machine with the dependencies already has.

The Python language reference (`pydoc_data.topics`) and the docstrings of the
standard library and of some installed packages: enough prose to show the whole
chain without a download.
"""

from __future__ import annotations

import ast
import importlib.util
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator

# Required dependencies whose docstrings are prose, largest first.
PACKAGES = ("tensorflow", "numpy", "keras", "absl", "tf_keras", "matplotlib")

# A paragraph that is not one of these is code, a table, a heading or a list of
# arguments. Sentences want a capital, words, and an end mark.
_PROSE = re.compile(r"[A-Z\"'`*(][^\n]*[.!?:)\"']$")
_MARKUP = re.compile(r"``?|\*\*?|:[a-z]+:(?=`)|(?<!\w)_(?=\w)|\|")
_CODE_SIGNS = re.compile(r"Args:|>>>|\.\. |::|==|[{}\\<>=;@#]|\w\(\w*\)|://")
_MIN_WORDS = 8
_MIN_LETTERS = 0.75  # share of letters among the characters of a paragraph


def python_documents(
    packages: Iterable[str] = PACKAGES,
) -> Iterator[tuple[str, list[str]]]:
    """Yields documents as (source, paragraphs of English prose).

    A document is one topic of the language reference, or the docstrings of one
    module in source order; the source is "python" or the package. A paragraph
    comes once in the whole corpus: copied docstrings are common, and a held-out
    document must not repeat what the model was trained on.

    Args:
      packages: importable names; those that are not installed are left out.
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
    """Returns the paragraphs of a docstring that are running English prose."""
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
            warnings.simplefilter("ignore")  # other people's escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # a template or a test of the parser
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring
