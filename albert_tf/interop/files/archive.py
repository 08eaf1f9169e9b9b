"""Archives (.tar, .tar.gz) of checkpoints, such as Google's."""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator

from albert_tf.errors import InputError


class UnpackedArchive:
    """An archive's files in a temporary folder, which lives as long as this.

    Attributes:
      folder: where the files are: the archive's only folder, or its root.
    """

    def __init__(self, path: str | os.PathLike[str]):
        """Unpacks regular files; links, devices and paths upwards are refused.

        Raises:
          InputError: the archive is damaged, or names a path outside of it.
        """
        self._temporary = tempfile.TemporaryDirectory(prefix="albert_tf-")
        root = pathlib.Path(self._temporary.name)
        try:
            with tarfile.open(path) as archive:
                for member in archive:
                    _unpack(archive, member, root, path)
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as e:
            raise InputError(
                f"{path} is a damaged or incomplete archive ({e}); download "
                "it again"
            ) from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        entries = [p for p in root.iterdir() if not p.name.startswith(".")]
        while len(entries) == 1 and entries[0].is_dir():
            root = entries[0]
            entries = [p for p in root.iterdir() if not p.name.startswith(".")]
        self._path, self._root = os.fspath(path), str(root)
        self.folder = root

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Lets errors name the archive instead of the temporary folder."""
        try:
            yield
        except InputError as error:
            text = str(error).replace(self._root, self._path)
            raise InputError(text) from None


def _unpack(archive, member, root, source) -> None:
    if pathlib.PurePath(member.name).name.startswith("._"):
        return  # what macOS adds to each file
    target = (root / member.name).resolve()
    if not target.is_relative_to(root.resolve()):
        raise InputError(f"{source} names {member.name}, outside of itself")
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isfile():
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.extractfile(member) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    else:
        raise InputError(
            f"{source} holds {member.name}, which is neither file nor folder"
        )
