"""Counts and lines in messages, and how all messages are written."""

import ast
import pathlib
import re

import pytest

from albert_tf.errors import InputError, counted, shown

REPOSITORY = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def modules():
    """Path of each module -> its syntax tree."""
    return {
        path.relative_to(REPOSITORY): ast.parse(path.read_text("utf-8"))
        for folder in ("albert_tf", "export")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
    }


def messages(tree):
    """Yields what errors are constructed with, such as their texts."""
    raised = [x.exc for x in ast.walk(tree) if isinstance(x, ast.Raise)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if node in raised or name.endswith("Error"):
                yield from (*node.args, *(x.value for x in node.keywords))


def raises_entries(tree):
    """Yields the first line of each entry in Raises sections of docstrings."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            section = text.partition("\nRaises:\n")[2].partition("\n\n")[0]
            yield from re.findall(r"^  (\S.*)", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 steps"), (1, "1 step"), (2000, "2,000 steps")]
)
def test_counts(number, text):
    assert counted(number, "step") == text


def test_messages_are_one_printable_line():
    error = InputError("a\nb\x1b[31m\u202ec")
    assert str(error) == r"a b\x1b[31m\u202ec"


def test_values_are_shown_in_80_characters():
    assert shown("a" * 78) == repr("a" * 78)
    assert shown("a" * 79) == f"'{'a' * 76}..."
    assert shown(None) == "None"


def test_no_message_ends_with_a_period(modules):
    """Most are fragments, joined by semicolons."""
    ended = [
        f"{path}:{node.lineno}"
        for path, tree in modules.items()
        for node in messages(tree)
        if re.search(r"(?<!\.)\.[\"']$", ast.unparse(node))
    ]
    assert not ended


def test_raises_sections_continue_in_lower_case(modules):
    capitalized = [
        f"{path}: {entry}"
        for path, tree in modules.items()
        for entry in raises_entries(tree)
        if not re.match(r"[\w.]+: [a-z`]", entry)
    ]
    assert not capitalized
