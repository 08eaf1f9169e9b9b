"""Files that are written: through links and to devices, and never an input."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from albert_tf.errors import InputError
from albert_tf.files import (
    check_not_input,
    new_file,
    write_atomically,
    write_together,
)


def write(path, text="new\n"):
    with new_file(path) as file:
        file.write(text)


def write_pair(path):
    write_together({path: "new\n", f"{path}.vocab": "new\n"})


@pytest.mark.parametrize("writer", [write, write_pair])
def test_links_are_followed(tmp_path, writer):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "target"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to("there/target")
    writer(link)
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    dangling = tmp_path / "dangling"
    dangling.symlink_to("there/new")
    writer(dangling)
    assert (tmp_path / "there" / "new").read_text() == "new\n"
    left = {x.name for x in (tmp_path / "there").iterdir()}
    assert left - {"target.vocab", "new.vocab"} == {"target", "new"}


@pytest.mark.parametrize("left", ["", "of a process that was killed\n"])
def test_one_process_at_a_time(tmp_path, left):
    path = tmp_path / "file"
    (tmp_path / ".file.partial").write_text(left)
    with new_file(path) as file:
        with pytest.raises(
            InputError, match=f"written by process {os.getpid()}"
        ):
            write(path, "other\n")
        file.write("new\n")
    assert path.read_text() == "new\n"
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(KeyError), new_file(path):
        raise KeyError
    assert path.read_text() == "new\n"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("writer", [write, write_atomically])
def test_a_file_called_partial_is_left_alone(tmp_path, writer):
    (tmp_path / "file.partial").write_text("mine")
    writer(tmp_path / "file", "new\n")
    assert (tmp_path / "file").read_text() == "new\n"
    assert (tmp_path / "file.partial").read_text() == "mine"


def test_short_files_wait_for_each_other(tmp_path):
    path = tmp_path / "file"
    texts = [f"{number}\n" * 10_000 for number in range(4)]

    def write_often(text):
        for _ in range(50):
            write_together({path: text, tmp_path / "second": text})

    threads = [threading.Thread(target=write_often, args=[x]) for x in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert (tmp_path / "second").read_text() == path.read_text()
    assert {*os.listdir(tmp_path)} == {"file", "second"}


HOLDER = """
import sys, time
from albert_tf.files import (new_file)
with new_file(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(2.5)
"""


def test_waiting_for_another_process_is_reported(tmp_path, caplog):
    path = tmp_path / "file"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"locked\n"
    with pytest.raises(InputError, match=f"written by process {holder.pid} on"):
        write(path)
    write_pair(path)
    assert f"file is being written by process {holder.pid} on" in caplog.text
    assert caplog.text.count("; waiting for it") == 1
    assert path.read_text() == "new\n"
    holder.communicate()


@pytest.mark.parametrize("writer", [write, write_pair])
def test_nothing_that_exists_is_written_to(tmp_path, writer):
    """In a shared folder it may be there to overwrite another file."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path, partial = tmp_path / "file", tmp_path / ".file.partial"
    for make in (
        lambda: partial.symlink_to("victim"),
        lambda: partial.symlink_to("nowhere"),
        lambda: os.mkfifo(partial),
        lambda: partial.mkdir(),
    ):
        make()
        with pytest.raises(InputError, match="partial: in the way of a temp"):
            writer(path)
        assert sorted(os.listdir(tmp_path)) == [".file.partial", "victim"]
        partial.rmdir() if partial.is_dir() else partial.unlink()
    os.link(victim, partial)  # Looks like that of a killed process.
    writer(path)
    assert not partial.exists()
    assert path.read_text() == "new\n"
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("writer", [write, write_pair])
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o755])
def test_links_of_others_where_everyone_writes(tmp_path, writer, mode):
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(mode)
    victim.mkdir()
    (victim / "file").write_text("mine")
    for link, path in (("file", "file"), ("folder", "folder/file")):
        (shared / link).symlink_to(victim / "file" if link == path else victim)
        try:
            os.lchown(shared / link, 12345, 12345)
        except PermissionError:
            pytest.skip("only root gives files away")
        if mode == 0o755:
            writer(shared / path)
            assert (victim / "file").read_text() == "new\n"
            continue
        with pytest.raises(InputError, match="is another user's link"):
            writer(shared / path)
        assert (victim / "file").read_text() == "mine"


@pytest.mark.parametrize("writer", [write, write_pair])
def test_permissions(tmp_path, writer):
    path = tmp_path / "file"
    before = os.umask(0o027)
    try:
        writer(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    writer(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.parametrize("writer", [write, write_pair])
def test_a_pipe_is_written_to(tmp_path, writer):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    writer(pipe)
    reader.join()
    assert read == ["new\n"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("writer", [write, write_pair])
def test_a_device_is_written_to(tmp_path, writer):
    device = tmp_path / "device"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    link = tmp_path / "link"
    link.symlink_to("device")
    for path in (device, link):
        writer(path)
    assert device.is_char_device()
    assert link.is_symlink()


def test_an_open_file_is_appended_to(tmp_path):
    with open(tmp_path / "log", "a") as log:
        log.write("before\n")
        log.flush()
        inode = os.fstat(log.fileno()).st_ino
        write(f"/dev/fd/{log.fileno()}")
        assert (tmp_path / "log").stat().st_ino == inode


def test_failures_leave_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write(path, "half\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name", ["", "absent/file", "n" * 300, "file/x", "folder"]
)
def test_paths_that_cannot_be_written(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written: "):
        with new_file(tmp_path / name):
            pytest.fail("It is noticed before the block.")


def test_outputs_may_not_overwrite_inputs(tmp_path):
    (tmp_path / "data" / "inner").mkdir(parents=True)
    file = tmp_path / "data" / "inner" / "file"
    file.write_text("text")
    (tmp_path / "link").symlink_to("data/inner/file")
    (tmp_path / "folder").symlink_to("data")
    os.link(file, tmp_path / "hard")
    (tmp_path / "other").touch()
    for output, source in (
        (file, file),
        (tmp_path / "data" / ".." / "data" / "inner" / "file", file),
        (tmp_path / "link", file),
        (tmp_path / "hard", file),
        (file, tmp_path / "data"),
        (tmp_path / "hard", tmp_path / "data"),
        (tmp_path / "data", tmp_path / "folder"),
        (tmp_path / "data", file),
        (tmp_path / "folder", file),
        (tmp_path, tmp_path / "data"),
    ):
        with pytest.raises(InputError, match="would destroy the input"):
            check_not_input(output, ["absent", source])
    for output, source in (
        (tmp_path / "new", file),
        (tmp_path / "other", file),
        (tmp_path / "other", tmp_path / "data"),
        (tmp_path / "data" / "new", tmp_path / "data"),
        (tmp_path / "data" / "inner", tmp_path / "other"),
        ("/dev/null", file),
    ):
        check_not_input(output, [source])
