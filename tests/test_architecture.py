"""The packages of docs/design.md, compared with the imports of the code."""

import ast
import pathlib
import re

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = {"albert_tf": "albert_tf", "albert_tf.exporting": "export"}


@pytest.fixture(scope="module")
def modules():
    """Name of each module, without `albert_tf.` -> its syntax tree."""
    trees = {}
    for package, folder in FOLDERS.items():
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            parts = path.relative_to(REPOSITORY / folder).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            name = ".".join([*package.split(".")[1:], *parts])
            trees[name] = ast.parse(path.read_text())
    return trees


@pytest.fixture(scope="module")
def imports(modules):
    """Module -> modules of ours that it imports, at any level of nesting.

    The public names in `albert_tf/__init__.py` are for type checkers and are
    imported on first use.
    """
    found = {}
    for name, tree in modules.items():
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: relative import"
                names |= {f"{node.module}.{a.name}" for a in node.names}
        ours = {n.removeprefix("albert_tf.") for n in names if n != "albert_tf"}
        resolved = {n if n in modules else n.rpartition(".")[0] for n in ours}
        found[name] = resolved & {*modules} - {"", name} if name else set()
    return found


@pytest.fixture(scope="module")
def packages():
    text = (REPOSITORY / "docs" / "design.md").read_text()
    table = text.partition("## Packages")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def package_of(module):
    return module.partition(".")[0]


def folder_of(module):
    """The name of the package in a package, such as that of a task type."""
    return ".".join(module.split(".")[:2])


def test_every_package_is_documented(modules, packages):
    found = {package_of(name) for name in modules} - {"", "__main__"}
    assert sorted(packages) == sorted(found)


def test_packages_import_only_packages_above_them(imports, packages):
    order = {package: number for number, package in enumerate(packages)}
    backwards = [
        f"{module} imports {target}"
        for module, targets in imports.items()
        if module not in ("", "__main__")
        for target in targets
        if order[package_of(target)] > order[package_of(module)]
    ]
    assert not backwards


def test_task_types_do_not_import_each_other(imports):
    """What several need is beside their folders."""
    folders = {
        f"finetuning.{path.parent.name}"
        for path in (REPOSITORY / "albert_tf/finetuning").glob("*/__init__.py")
    }
    sideways = [
        f"{module} imports {target}"
        for module, targets in imports.items()
        for target in targets
        if len(folders & {folder_of(module), folder_of(target)}) > 1
    ]
    assert folders
    assert not sideways


def test_no_import_cycle(imports):
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        path.append(module)
        for target in sorted(imports[module]):
            visit(target)
        path.pop()
        done.add(module)

    for module in imports:
        visit(module)


def test_functions_take_at_most_eight_parameters(modules):
    """Constructors of public classes aside."""
    long = []
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            given = node.args
            parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            named = [p for p in parameters if p.arg not in ("self", "cls")]
            if len(named) > 8 and node.name != "__init__":
                long.append(f"{name}.{node.name}: {len(named)}")
    assert not long


# It runs where albert_tf cannot be imported, so that it is a file of its own.
LONGER = {"export/check_program.py"}


def test_files_are_as_long_as_their_idea():
    lengths = {
        str(path.relative_to(REPOSITORY)): len(path.read_text().splitlines())
        for folder in FOLDERS.values()
        for path in (REPOSITORY / folder).rglob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > 400} == LONGER


def attributes_set_by(function):
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def born_late(cls):
    """Returns attributes that neither the class nor `__init__` defines."""
    fields = {
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign)
    }
    methods = {
        node.name: attributes_set_by(node)
        for node in cls.body
        if isinstance(node, ast.FunctionDef)
    }
    first = fields | methods.pop("__init__", set())
    return set().union(*methods.values()) - first


def test_attributes_of_training_are_born_in_init(modules):
    late = {
        (name, node.name): names
        for name, tree in modules.items()
        if package_of(name) == "training"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and (names := born_late(node))
    }
    assert not late
