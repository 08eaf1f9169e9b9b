"""Processes of ours do not import what lies in the current folder."""

import subprocess
import sys

import pytest

POOL = """
import os
from albert_tf.worker_pool import worker_pool

if __name__ == "__main__":
    with worker_pool(2, os.getpid) as pool:
        print(pool.submit(os.getcwd).result())
"""


@pytest.fixture
def hostile(tmp_path):
    """A folder with modules that say when they are imported."""
    for name in ("multiprocessing", "pickle", "numpy", "absl", "keras"):
        code = f"raise SystemExit('{name} of the current folder')\n"
        (tmp_path / f"{name}.py").write_text(code)
    return tmp_path


def test_workers_import_nothing_from_the_current_folder(hostile):
    script = hostile / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(POOL)
    ended = subprocess.run(
        [sys.executable, script], cwd=hostile, capture_output=True, text=True
    )
    assert ended.stderr == ""
    assert ended.stdout == f"{hostile}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["pretrain", "--help"]])
def test_nor_does_the_module(hostile, arguments):
    ended = subprocess.run(
        [sys.executable, "-m", "albert_tf", *arguments],
        cwd=hostile,
        capture_output=True,
        text=True,
    )
    assert ended.stderr == ""
    assert ended.stdout
