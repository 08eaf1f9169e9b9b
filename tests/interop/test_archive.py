import gzip
import io
import tarfile

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.archive import UnpackedArchive


def pack(path, members, mode="w:gz"):
    """Writes an archive of name -> content, or of `TarInfo`s."""
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content
                archive.addfile(member)
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("folder", ["", "albert_base/", "./", "a/b/"])
def test_the_only_folder_is_the_root(tmp_path, mode, folder):
    files = {f"{folder}x.json": b"{}", f"{folder}sub/y": b"1"}
    archive = UnpackedArchive(pack(tmp_path / "a.tar", files, mode))
    names = {p.relative_to(archive.folder) for p in archive.folder.rglob("*")}
    assert {str(name) for name in names} == {"x.json", "sub", "sub/y"}
    assert (archive.folder / "sub" / "y").read_bytes() == b"1"


def test_files_added_by_macos_are_skipped(tmp_path):
    files = {"a/._x.index": b"?", "._a": b"?", "a/x.index": b"1"}
    archive = UnpackedArchive(pack(tmp_path / "a.tar", files))
    assert [p.name for p in archive.folder.iterdir()] == ["x.index"]


def test_deeply_nested_folders(tmp_path):
    """Python creates and removes folders recursively."""
    path = pack(tmp_path / "a.tar", {"a/" * 2000 + "x": b"1"})
    with pytest.raises(InputError, match="nested deeper than 64 levels"):
        UnpackedArchive(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("../x", b"1"),
        ("a/../../x", b"1"),
        ("x", (tarfile.SYMTYPE, "/etc/passwd")),
        ("x", (tarfile.SYMTYPE, "../y")),
        ("x", (tarfile.LNKTYPE, "../y")),
        # Inside of it, too: a chain of them may lead out.
        ("x", (tarfile.SYMTYPE, "fine")),
        ("x", (tarfile.LNKTYPE, "fine")),
        ("x", (tarfile.FIFOTYPE, "")),
        ("x", (tarfile.CHRTYPE, "")),
    ],
)
def test_members_outside_of_the_folder_are_errors(tmp_path, name, content):
    path = pack(tmp_path / "b.tar", {"fine": b"1", name: content})
    with pytest.raises(
        InputError, match=f"^{path} is not safe to unpack: {name} "
    ):
        UnpackedArchive(path)
    assert [p.name for p in tmp_path.iterdir()] == ["b.tar"]


def test_absolute_paths_stay_inside(tmp_path):
    outside = tmp_path / "x"
    path = pack(tmp_path / "b.tar", {str(outside): b"1", "y": b"2"})
    archive = UnpackedArchive(path)
    assert not outside.exists()
    assert (archive.folder / "y").read_bytes() == b"2"


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_archives(tmp_path, mode, share):
    content = bytes(range(256)) * 400
    path = pack(tmp_path / "a.tar", {"x": content}, mode)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match="damaged or incomplete archive") as e:
        UnpackedArchive(path)
    assert str(path) in str(e.value)


def test_every_flipped_bit_is_found(tmp_path):
    """gzip's checksum comes after the end of the tar archive."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 1, 1000).astype("f4").tobytes()
    path = pack(tmp_path / "a.tar.gz", {"config.json": b"{}", "x": weights})
    whole = path.read_bytes()
    # The header before has the time, the system and the file's name.
    for position in range(20, len(whole), 37):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        path.write_bytes(content)
        with pytest.raises(InputError, match="damaged or incomplete archive"):
            UnpackedArchive(path)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_data_after_the_end_is_an_error(tmp_path, mode):
    path = pack(tmp_path / "a.tar", {"x": b"1"}, mode)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(InputError, match="damaged or incomplete archive"):
        UnpackedArchive(path)


def sparse_member():
    """A sparse file of 2^40 bytes without data."""
    member = tarfile.TarInfo("x")
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "x",
        "GNU.sparse.realsize": str(1 << 40),
    }
    member.size = 512
    content = b"0\n".ljust(512, b"\0")
    return member.tobuf(tarfile.PAX_FORMAT) + content + bytes(1024)


def empty_members(count):
    return b"".join(tarfile.TarInfo(f"{i}").tobuf() for i in range(count))


def long_header():
    """An extended header that claims 2^32 bytes, with zeros."""
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 1 << 32
    return member.tobuf() + bytes(80 << 20)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (sparse_member, "not safe to unpack: x is a .*sparse file"),
        (lambda: empty_members(1_001), "has more than 1,000 files"),
        (long_header, "unpacks to many times its size"),
        (lambda: empty_members(1) + bytes(80 << 20), "many times its size"),
    ],
)
def test_archive_bombs(tmp_path, content, match):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(content(), 1))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(InputError, match=match):
        UnpackedArchive(path)


def test_a_file_and_a_folder_with_the_same_name(tmp_path):
    path = pack(tmp_path / "a.tar", {"x": b"1", "x/y": b"2"})
    with pytest.raises(InputError, match=f"^{path}: "):
        UnpackedArchive(path)
