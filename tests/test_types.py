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
def check(tmp_path_factory):
    """Returns `check(*paths)`: the errors of paths in a built tree.

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

    def check(*paths):
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
        return [line for line in result.stdout.splitlines() if "ERROR" in line]

    return check


def test_the_package_has_no_type_error(check):
    assert check("albert_tf") == []


def test_benchmarks_have_no_type_error(check):
    """They are run by hand: nothing else tells that a name has moved."""
    assert check("benchmarks") == []


def test_user_program_has_no_type_error(check):
    assert check("user_program.py") == []


def test_mistakes_of_users_are_type_errors(check):
    errors = check("user_mistakes.py")
    lines = (PROGRAMS / "user_mistakes.py").read_text().splitlines()
    marked = [n for n, line in enumerate(lines, 1) if line.endswith("# error")]
    found = {int(error.split(":")[1]) for error in errors}
    assert found == set(marked), errors
