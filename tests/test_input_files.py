"""One reader of all files: regular ones of bounded size, or one line."""

import os
import socket

import pytest

from albert_tf import input_files
from albert_tf.errors import InputError
from albert_tf.input_files import (
    MAX_BYTES,
    numbered_lines,
    open_input,
    parse_json,
    read_bytes,
    read_json,
    read_text,
    sha256,
)

READERS = (open_input, read_bytes, read_text, read_json, sha256)


@pytest.fixture
def special(tmp_path):
    """What is not a regular file, and what the message says of it."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    # The path of a socket has at most 107 bytes.
    folder = os.open(tmp_path, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(f"/proc/self/fd/{folder}/socket")
    os.close(folder)
    regular = "a pipe, device or socket; give a regular file"
    return {
        **dict.fromkeys(("pipe", "link", "endless", "socket"), regular),
        "loop": "cannot be read: Too many levels of symbolic links",
        "absent": "cannot be read: No such file",
        ".": "cannot be read: Is a directory",
        "a\0b": "cannot be read: embedded null",
    }


@pytest.mark.parametrize("read", READERS)
def test_only_regular_files_are_read(tmp_path, special, read):
    for name, message in special.items():
        with pytest.raises(InputError, match=message):
            read(f"{tmp_path}/{name}")


@pytest.mark.parametrize("read", [read_bytes, read_text, read_json])
def test_sizes_are_bounded(tmp_path, read):
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(InputError, match="huge: larger than 64 MiB, the max"):
        read(path)


def test_content_is_read_as_it_is(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\xc3\xa9")
    assert read_bytes(path) == path.read_bytes()
    assert read_text(path) == "a\r\né"
    with open_input(f"file://{path}") as file:  # remote, to TensorFlow
        assert [*numbered_lines(file, path)] == [
            (1, b"\xef\xbb\xbfa\r\n"),
            (2, b"\xc3\xa9"),
        ]
    assert sha256(f"file://{path}") == sha256(path)
    path.write_bytes(b"ab\xff")
    with pytest.raises(InputError, match="file: byte 3 of the file is not UT"):
        read_text(path)


def test_lines_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"abc\nabcd\nabcde\n")
    monkeypatch.setattr(input_files, "MAX_BYTES", 5)
    with (
        open_input(path) as file,
        pytest.raises(InputError, match="file:3: longer than"),
    ):
        list(numbered_lines(file, path))
    assert MAX_BYTES > 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested deeper than 64 levels"),
        ('{"a":' * 100_000, "nested deeper than 64 levels"),
        ("9" * 5000, "is not JSON: Exceeds the limit"),
        ('"\\ud800"', "a string has half of a surrogate pair"),
        (b'"\xed\xa0\x80"', "is not JSON: 'utf-8' codec"),
        ("", "is not JSON: Expecting value"),
    ],
)
def test_json_is_bounded(text, message):
    with pytest.raises(InputError, match=f"^it:? {message}"):
        parse_json(text, "it")
