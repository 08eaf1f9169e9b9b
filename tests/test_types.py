"""The type checker, on the package and on programs of users."""

import pathlib
import shutil
import subprocess
import sys

import pyrefly
import pytest

REPOSITORY = pathlib.Path(__file__).parents[1]
PROGRAMS = REPOSITORY / "tests" / "typing"
# Beside the packages of its environment.
PYREFLY = pathlib.Path(pyrefly.__file__).parents[4] / "bin" / "pyrefly"


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The first part of a path in a built tree -> the errors in it.

    `export/` is `albert_tf.exporting` only there.
    """
    tree = tmp_path_factory.mktemp("types")
    subprocess.run(
        [
            *(sys.executable, "setup.py", "-q", "build_py"),
            *("--build-lib", str(tree)),
        ],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    for path in PROGRAMS.glob("*.py"):
        shutil.copy(path, tree)
    shutil.copy(PROGRAMS / "pyrefly.toml", tree)
    shutil.copytree(REPOSITORY / "benchmarks", tree / "benchmarks")
    paths = ("albert_tf", "benchmarks", "user_program.py", "user_mistakes.py")
    result = subprocess.run(
        [
            *(str(PYREFLY), "check", *paths),
            *("--config", "pyrefly.toml", "--output-format", "min-text"),
            *("--python-interpreter-path", sys.executable),
        ],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    assert " error" in result.stderr, result.stderr  # The count of them.
    found = {path: [] for path in paths}
    for line in result.stdout.splitlines():
        if "ERROR" in line:
            path = line.split("ERROR ")[1].split(":")[0]
            found[path.split("/")[0]].append(line)
    return found


# Benchmarks are run by hand: nothing else tells that a name has moved.
@pytest.mark.parametrize("path", ["albert_tf", "benchmarks", "user_program.py"])
def test_there_is_no_type_error(errors, path):
    assert errors[path] == []


def test_mistakes_of_users_are_type_errors(errors):
    found = errors["user_mistakes.py"]
    lines = (PROGRAMS / "user_mistakes.py").read_text().splitlines()
    marked = [n for n, line in enumerate(lines, 1) if line.endswith("# error")]
    assert {int(error.split(":")[1]) for error in found} == set(marked), found
