import os
import pathlib
import subprocess
import sys

import pytest

from albert_tf import folders
from albert_tf.errors import InputError
from albert_tf.folders import (
    new_folder,
    replace_folder,
    swap_folders,
    temporary_folder,
)


def test_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "models" / "a"
    with new_folder(target) as folder:
        (folder / "saved_model.pb").write_text("new")
        assert not target.exists()
        assert folder.parent == target.parent
    assert (target / "saved_model.pb").read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_folder_is_accessible_to_others(tmp_path):
    with new_folder(tmp_path / "a"):
        pass
    (tmp_path / "b").mkdir()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.parametrize("make", ["mkdir", "touch"])
def test_existing_path_is_an_error(tmp_path, make):
    getattr(tmp_path / "a", make)()
    with (
        pytest.raises(InputError, match="exists; choose another path"),
        new_folder(tmp_path / "a"),
    ):
        pytest.fail("entered")


def test_folder_removed_before_locking_is_created_again(tmp_path, monkeypatch):
    """To another process it looks abandoned until then."""
    original, removed = os.open, []

    def remove_first(path, *arguments):
        if os.fspath(path).endswith(".tmp") and not removed:
            removed.append(path)
            os.rmdir(path)
        return original(path, *arguments)

    monkeypatch.setattr(os, "open", remove_first)
    with temporary_folder(tmp_path / "a") as folder:
        assert folder.is_dir()
        assert [folder] != removed


def saved_model(path):
    path.mkdir()
    (path / "saved_model.pb").write_text("old")
    (path / "old_file").write_text("old")
    return path


def test_overwrite_replaces_the_whole_folder(tmp_path):
    target = saved_model(tmp_path / "a")
    with new_folder(target, overwrite=True, marker="saved_model.pb") as folder:
        (folder / "saved_model.pb").write_text("new")
        assert (target / "saved_model.pb").read_text() == "old"
    assert [p.name for p in target.iterdir()] == ["saved_model.pb"]
    assert (target / "saved_model.pb").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_overwrite_requires_the_marker(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1").touch()
    with (
        pytest.raises(InputError, match="has no saved_model.pb"),
        new_folder(
            tmp_path / "thesis", overwrite=True, marker="saved_model.pb"
        ),
    ):
        pytest.fail("entered")
    assert (tmp_path / "thesis" / "chapter1").exists()


def fail_half_way(target):
    with new_folder(target, overwrite=True, marker="saved_model.pb") as folder:
        (folder / "saved_model.pb").write_text("half")
        raise RuntimeError("half-way")


def test_failure_keeps_the_old_one(tmp_path):
    target = saved_model(tmp_path / "a")
    with pytest.raises(RuntimeError, match="half-way"):
        fail_half_way(target)
    assert (target / "saved_model.pb").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_failure_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="half-way"):
        fail_half_way(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def make_while_someone_else_does(target):
    with new_folder(target):
        target.mkdir()
        (target / "someone_elses").touch()


def test_path_created_in_the_meantime(tmp_path):
    with pytest.raises(InputError, match="exists"):
        make_while_someone_else_does(tmp_path / "a")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "someone_elses"]


def test_invalid_paths(tmp_path):
    (tmp_path / "file").touch()
    for path, message in (
        ("", "not the path of a folder"),
        ("a\0b", "not the path of a folder"),
        ("gs://bucket/a", "local folder"),
        (tmp_path / "file" / "a", "cannot create a folder in"),
    ):
        with pytest.raises(InputError, match=message), new_folder(path):
            pytest.fail("entered")


OVERWRITER = """
import sys
from albert_tf.folders import new_folder
for _ in range(300):
    with new_folder(sys.argv[1], True, "saved_model.pb") as folder:
        (folder / "saved_model.pb").touch()
"""


def test_replacement_is_atomic(tmp_path):
    target = saved_model(tmp_path / "a")
    (tmp_path / "b").mkdir()
    if not swap_folders(target, tmp_path / "b"):
        pytest.skip("this file system cannot exchange two names")
    assert swap_folders(target, tmp_path / "b")
    writer = subprocess.Popen([sys.executable, "-c", OVERWRITER, target])
    looks, misses = 0, 0
    while writer.poll() is None:
        looks += 1
        misses += not os.path.exists(target)
    assert writer.returncode == 0
    assert looks > 1000
    assert misses == 0


def test_replacement_without_exchange(tmp_path, monkeypatch):
    # What `swap_folders` says on NFS.
    monkeypatch.setattr(folders, "swap_folders", lambda *_: False)
    test_overwrite_replaces_the_whole_folder(tmp_path)


def test_swap_of_missing_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        swap_folders(tmp_path / "a", tmp_path / "b")


KILLED = """
import sys
from albert_tf.folders import new_folder
with new_folder(sys.argv[1]) as folder:
    (folder / "saved_model.pb").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def start_writer(target):
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return writer, pathlib.Path(writer.stdout.readline().strip())


def test_folders_of_killed_processes_are_removed(tmp_path):
    target = tmp_path / "a"
    killed, left = start_writer(target)
    living, working = start_writer(target)
    other, others = start_writer(tmp_path / "a.b")
    for writer in (killed, other):
        writer.kill()
        writer.wait()
    assert not target.exists()
    assert left.exists()
    assert left.name.startswith(".a.")
    with new_folder(tmp_path / "a"):
        assert not left.exists()
        assert working.exists()
        assert others.exists()  # Of another path: who writes that removes it.
    living.communicate()  # Goes on, and finds that the path is taken now.
    assert living.returncode == 1
    assert sorted(tmp_path.iterdir()) == [others, target]


@pytest.mark.parametrize("suffix", ["tmp", "old"])
def test_nothing_of_other_users_is_continued_or_removed(tmp_path, suffix):
    """They may know the job, and lead what is written elsewhere."""
    left = tmp_path / f".a.{'0' * 32}.{suffix}"
    left.mkdir()
    (left / ".job").write_text("job\n{}")
    try:
        os.chown(left, 12345, 12345)
    except PermissionError:
        pytest.skip("only root gives folders away")
    with temporary_folder(tmp_path / "a", job="job") as folder:
        assert folder != left
        assert not list(folder.iterdir())
    assert (left / ".job").exists()
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda x: x.symlink_to("there")])
def test_pipes_and_links_in_the_way(tmp_path, make):
    (tmp_path / "there").mkdir()
    make(tmp_path / f".a.{'0' * 32}.tmp")
    with new_folder(tmp_path / "a") as folder:
        (folder / "saved_model.pb").touch()
    assert (tmp_path / "a" / "saved_model.pb").exists()
    assert (tmp_path / "there").exists()


def replace(path):
    """Replaces what `saved_model` made, beside a file and a link of others."""
    with temporary_folder(path) as folder:
        (folder / "saved_model.pb").write_text("new")
        (folder / "new_file").write_text("new")
        replace_folder(folder, path, obsolete=["old_file"])


def content(path):
    return {
        str(x.relative_to(path)): x.read_text()
        for x in path.rglob("*")
        if x.is_file()
    }


OTHERS = {"notes.txt": "mine", "deep/er/a": "mine", "link": "mine"}
OLD = OTHERS | {"saved_model.pb": "old", "old_file": "old"}
NEW = OTHERS | {"saved_model.pb": "new", "new_file": "new"}


def with_others(path):
    path = saved_model(path)
    (path / "notes.txt").write_text("mine")
    (path / "link").symlink_to("notes.txt")
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "a").write_text("mine")
    return path


def test_other_files_stay_in_a_replaced_folder(tmp_path):
    target = with_others(tmp_path / "a")
    target.chmod(0o750)
    note = (target / "notes.txt").stat().st_ino
    replace(target)
    assert content(target) == NEW
    assert (target / "notes.txt").stat().st_ino == note
    assert (target / "link").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [target]


def test_links_to_a_folder_are_followed(tmp_path):
    target = with_others(tmp_path / "disk")
    (tmp_path / "a").symlink_to("disk")
    replace(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()
    assert content(target) == NEW


@pytest.mark.parametrize("exchange", [True, False])
def test_killed_at_any_point_it_is_old_or_new(
    tmp_path, monkeypatch, each_kill, exchange
):
    if not exchange:
        monkeypatch.setattr(folders, "swap_folders", lambda *_: False)
    states = set()

    def prepare(name):
        (tmp_path / name).mkdir()
        return with_others(tmp_path / name / "a")

    for target in each_kill(prepare, replace):
        found = content(target) if target.exists() else None
        if found is None:
            # Between two renamings: the next one gives the old its name back.
            assert not exchange
            with temporary_folder(target):
                found = content(target)
        assert found in (OLD, NEW)
        states.add(found == NEW)
        replace(target)
        assert content(target) == NEW
        assert list(target.parent.iterdir()) == [target]
    assert states == {True, False}


def test_a_folder_that_cannot_be_replaced(tmp_path, monkeypatch, each_kill):
    target = with_others(tmp_path / "a")
    monkeypatch.chdir(target / "deep")
    with pytest.raises(InputError, match="is the current folder or one above"):
        replace(target)
    with (
        pytest.raises(InputError, match="is the current folder or one above"),
        new_folder(target, overwrite=True, marker="saved_model.pb"),
    ):
        pytest.fail("entered")
    assert content(target) == OLD

    def fill(path):
        monkeypatch.chdir(path)
        with temporary_folder(".") as folder:
            (folder / "saved_model.pb").write_text("new")
            (folder / "old_file").write_text("new")
            replace_folder(folder, ".", marker="saved_model.pb")

    for path in each_kill(lambda name: with_others(tmp_path / name), fill):
        found = content(path)
        assert (
            found.get("saved_model.pb") != "new" or found["old_file"] == "new"
        )
        assert (
            found.get("saved_model.pb") != "old" or found["old_file"] == "old"
        )
        fill(path)
        assert content(path) == OTHERS | {
            "saved_model.pb": "new",
            "old_file": "new",
        }
