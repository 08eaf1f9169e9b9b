"""`create_pretraining_data`, killed or interrupted, and run again."""

import collections
import dataclasses
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

import pytest

from albert_tf.data import create_data, shards
from albert_tf.data.shards import Limits

# Several file groups, blocks, tasks and files of each shard; saved after each
# task.
SMALL = Limits(
    group_bytes=1,
    min_block_bytes=2000,
    max_block_bytes=2000,
    pass_bytes=1500,
    shard_bytes=100_000,
    save_seconds=0.0,
)


@pytest.fixture
def small(create, contents, corpus, tmp_path):
    """Returns `make(name, **settings)` of two short files."""
    documents = (corpus / "a.txt").read_text("utf-8").split("\n\n")
    for number in range(2):
        part = "\n\n".join(documents[4 * number :][:4])
        (tmp_path / f"{number}.txt").write_text(part, "utf-8")

    def make(name, **settings):
        settings = {
            "input": f"{tmp_path}/*.txt",
            "heldout_fraction": 0.4,
            "num_shards": 2,
            "limits": SMALL,
        } | settings
        return contents(create(name, **settings)[0])

    return make


def leftovers(folder):
    """Returns what is left of temporary folders and of jobs in them."""
    found = [*folder.glob(".*.tmp"), *folder.glob(".*.tmp/.job")]
    return sorted(path.suffix or path.name for path in found)


def test_killed_before_any_change_of_a_file(
    small, contents, tmp_path, each_kill, capsys
):
    """The folder has the old data or the new, and the next run the same."""
    old, new = small("old", dupe_factor=1), small("new")
    capsys.readouterr()
    states, continued = [], 0

    def overwrite(folder):
        return small(folder.name, overwrite=True)

    def prepare(name):
        return shutil.copytree(tmp_path / "old", tmp_path / f"kill-{name}")

    for folder in each_kill(prepare, overwrite):
        found = contents(folder)
        states.append(found == new)
        assert states[-1] or found == old
        assert overwrite(folder) == new
        assert not leftovers(tmp_path)
        continued += "resumes after" in capsys.readouterr().err
        shutil.rmtree(folder)
    assert continued > 20
    assert {*states} == {True, False}
    assert states == sorted(states)


def test_what_is_done_is_not_done_again(
    small, tmp_path, monkeypatch, capsys, caplog
):
    limits = dataclasses.replace(SMALL, shard_bytes=2000)
    settings = {"num_shards": None, "limits": limits}
    whole = small("whole", **settings)
    assert sum(name.startswith("pretraining") for name in whole) > 8
    write, written = create_data.write_shard, []

    def fail(scratch, *arguments):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(scratch)
        return write(scratch, *arguments)

    monkeypatch.setattr(create_data, "write_shard", fail)
    with pytest.raises(KeyboardInterrupt):
        small("data", **settings)
    assert leftovers(tmp_path) == [".job", ".tmp"]
    assert "data: unfinished; the same command" in caplog.text
    # Neither text nor the files that are done are touched.
    monkeypatch.setattr(shards, "read_tasks", None)
    monkeypatch.setattr(
        create_data,
        "write_shard",
        lambda scratch, *rest: (
            write(scratch, *rest)
            if scratch not in written
            else pytest.fail("written again")
        ),
    )
    assert small("data", **settings, num_workers=2) == whole
    assert "resumes after" in capsys.readouterr().err
    assert not leftovers(tmp_path)


KILLS, PATIENCE = 4, 120

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "create_in_small_blocks.py"


def children_of(process):
    """Returns the ids of the processes that a process has started."""
    tasks = pathlib.Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def is_alive(process):
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def start(corpus, small_tokenizer, tmp_path):
    """Returns `start(name)`: the command with two workers, in a process."""
    (tmp_path / "spiece.model").write_bytes(small_tokenizer.model_bytes)
    text = (corpus / "a.txt").read_text("utf-8")
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(text * 8, "utf-8")

    def run(name):
        flags = {
            "input": f"{tmp_path}/*.txt",
            "output": tmp_path / name,
            "spm_model_file": tmp_path / "spiece.model",
            "masking": "static",
            "dupe_factor": 3,
            "max_seq_length": 64,
            "num_workers": 2,
        }
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        return subprocess.Popen(
            [sys.executable, SCRIPT, *arguments], stderr=subprocess.PIPE
        )

    return run


@pytest.mark.long
def test_killed_at_random_with_two_workers(start, contents, tmp_path):
    started = time.monotonic()
    assert start("whole").wait(PATIENCE) == 0
    seconds = time.monotonic() - started
    whole, moments = contents(tmp_path / "whole"), random.Random(KILLS)
    stages = collections.Counter()
    for number in range(KILLS):
        process = start("data")
        if number == 0:
            # In the middle, however long it takes to start.
            while not leftovers(tmp_path) and process.poll() is None:
                time.sleep(0.01)
        else:
            time.sleep(moments.uniform(0.2, 1.0) * seconds)
        workers = children_of(process.pid)
        process.kill()
        process.communicate()
        deadline = time.monotonic() + PATIENCE
        while any(map(is_alive, workers)):  # Nobody else would end them.
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if (tmp_path / "data").exists():
            stages["complete"] += 1
            assert contents(tmp_path / "data") == whole
            shutil.rmtree(tmp_path / "data")
        else:
            stages[" ".join(leftovers(tmp_path)) or "nothing"] += 1
    print(dict(stages))
    process = start("data")
    log = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 0, log
    assert contents(tmp_path / "data") == whole
    assert not leftovers(tmp_path)
    assert stages.keys() - {"nothing", "complete"}


def change_file(path):
    with open(path / "0.txt", "a") as file:
        file.write("\n\nBa ro ka.\nNti sel lo.\nMur e pin.\n")
    return {}


def touch_file(path):
    os.utime(path / "1.txt", ns=(1, 1))
    return {}


@pytest.mark.parametrize(
    "change",
    [
        change_file,
        touch_file,
        lambda _: {"seed": 2},
        lambda _: {"compress": True},
    ],
)
def test_work_on_something_else_is_discarded(
    small, tmp_path, monkeypatch, capsys, caplog, change
):
    with monkeypatch.context() as patch:
        patch.setattr(create_data, "_write_shards", None)
        with pytest.raises(TypeError):
            small("data")
    assert leftovers(tmp_path) == [".job", ".tmp"]
    settings = change(tmp_path)
    found = small("data", **settings)
    assert "data: discards unfinished work" in caplog.text
    assert "resumes after" not in capsys.readouterr().err
    assert not leftovers(tmp_path)
    assert found == small("other", **settings)
