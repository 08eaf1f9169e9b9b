"""Archives (.tar, .tar.gz) of checkpoints, such as Google's."""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
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
        """Unpacks an archive with tarfile's `data` filter.

        Raises:
          InputError: the archive is damaged, or holds devices or anything
            that would lie outside of the folder.
        """
        self._temporary = tempfile.TemporaryDirectory(prefix="albert_tf-")
        root = pathlib.Path(self._temporary.name)
        try:
            with tarfile.open(path) as archive:
                archive.extractall(root, filter=_filter)
        except tarfile.FilterError as error:
            raise InputError(
                f"{path} is not safe to unpack: {error.tarinfo.name} is a "
                "device, or would lie outside of its folder"
            ) from None
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
        """Names the archive instead of the temporary folder in errors."""
        try:
            yield
        except InputError as error:
            text = str(error).replace(self._root, self._path)
            raise InputError(text) from None


def _filter(member: tarfile.TarInfo, root: str) -> tarfile.TarInfo | None:
    if pathlib.PurePath(member.name).name.startswith("._"):
        return None  # macOS adds these to each file
    return tarfile.data_filter(member, root)
