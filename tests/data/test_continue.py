"""`create_pretraining_data`, killed or interrupted, and run again.

tests/test_kill.py kills the command and its workers.
"""

import dataclasses
import os
import shutil

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
