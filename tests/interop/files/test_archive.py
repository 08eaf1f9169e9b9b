import io
import tarfile

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.files.archive import UnpackedArchive


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


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("folder", ["", "albert_base/", "./", "a/b/"])
def test_files_of_the_only_folder(tmp_path, mode, folder):
    files = {f"{folder}x.json": b"{}", f"{folder}sub/y": b"1"}
    archive = UnpackedArchive(pack(tmp_path / "a.tar", files, mode))
    names = {p.relative_to(archive.folder) for p in archive.folder.rglob("*")}
    assert {str(name) for name in names} == {"x.json", "sub", "sub/y"}
    assert (archive.folder / "sub" / "y").read_bytes() == b"1"


def test_the_folder_goes_with_the_object(tmp_path):
    archive = UnpackedArchive(pack(tmp_path / "a.tar", {"x": b"1"}))
    folder = archive.folder
    assert folder.exists()
    del archive
    assert not folder.exists()


def test_what_macos_adds(tmp_path):
    files = {"a/._x.index": b"?", "._a": b"?", "a/x.index": b"1"}
    archive = UnpackedArchive(pack(tmp_path / "a.tar", files))
    assert [p.name for p in archive.folder.iterdir()] == ["x.index"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("../x", b"1"),
        ("a/../../x", b"1"),
        ("x", (tarfile.SYMTYPE, "/etc/passwd")),
        ("x", (tarfile.SYMTYPE, "../y")),
        ("x", (tarfile.LNKTYPE, "../y")),
        ("x", (tarfile.FIFOTYPE, "")),
        ("x", (tarfile.CHRTYPE, "")),
    ],
)
def test_nothing_outside(tmp_path, name, content):
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


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_cut_short(tmp_path, mode, share):
    content = bytes(range(256)) * 400
    path = pack(tmp_path / "a.tar", {"x": content}, mode)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match="damaged or incomplete archive") as e:
        UnpackedArchive(path)
    assert str(path) in str(e.value)


def test_a_bad_byte(tmp_path):
    path = pack(tmp_path / "a.tar.gz", {"x": bytes(range(256)) * 400})
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged or incomplete archive"):
        UnpackedArchive(path)


def test_file_and_folder_of_one_name(tmp_path):
    path = pack(tmp_path / "a.tar", {"x": b"1", "x/y": b"2"})
    with pytest.raises(InputError, match=f"^{path}: "):
        UnpackedArchive(path)


def test_errors_name_the_archive(tmp_path):
    path = pack(tmp_path / "a.tar", {"b/x": b"1"})
    archive = UnpackedArchive(path)
    with pytest.raises(InputError, match=rf"^{path}/x is bad$"):
        with archive.named():
            raise InputError(f"{archive.folder / 'x'} is bad")
