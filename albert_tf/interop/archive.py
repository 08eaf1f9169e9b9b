"""Archives of checkpoints (.tar, .tar.gz), such as Google's."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pathlib
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO

from albert_tf.errors import InputError
from albert_tf.interop.file_types import file_kind

# Weights compress to no less than half their size; the rest is a margin.
_MAX_GROWTH = 4
_FREE_BYTES = 64 << 20
_MAX_MEMBERS = 1_000
_MAX_DEPTH = 64  # `os.makedirs` and `shutil.rmtree` recurse.
_CHUNK = 1 << 20
_DAMAGES = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


class UnpackedArchive:
    """An archive unpacked to a temporary folder, deleted with this object.

    Attributes:
      folder: the archive's only top-level folder, or else its root.
    """

    def __init__(self, path: str | os.PathLike[str]):
        """Unpacks an archive with tarfile's `data` filter.

        It is read to its end, where gzip stores the checksum. An archive that
        is damaged, expands to many times its size, or contains links, devices,
        sparse files or paths outside of the folder is an `InputError`.
        """
        self._temporary = tempfile.TemporaryDirectory(prefix="albert_tf-")
        root = pathlib.Path(self._temporary.name)
        try:
            _unpack(path, root)
        except InputError:
            raise
        except tarfile.FilterError as error:
            raise InputError(
                f"{path} is not safe to unpack: {error.tarinfo.name} is a "
                "path outside of the folder"
            ) from None
        except _DAMAGES as error:
            raise InputError(
                f"{path} is a damaged or incomplete archive ({error}); "
                "download it again"
            ) from None
        except (OSError, ValueError, KeyError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: {reason}") from None
        entries = [p for p in root.iterdir() if not p.name.startswith(".")]
        while len(entries) == 1 and entries[0].is_dir():
            root = entries[0]
            entries = [p for p in root.iterdir() if not p.name.startswith(".")]
        self._path, self._root = os.fspath(path), str(root)
        self.folder = root

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Replaces the temporary folder by the archive in error messages."""
        try:
            yield
        except InputError as error:
            text = str(error).replace(self._root, self._path)
            raise InputError(text) from None


class _LimitedStream(io.RawIOBase):
    """A stream that raises an `InputError` after `limit` bytes."""

    def __init__(
        self, stream: IO[bytes] | gzip.GzipFile, limit: int, source: str
    ):
        super().__init__()
        self._stream, self._left, self._source = stream, limit, source

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise InputError(
                f"{self._source} unpacks to many times its size; expected "
                "weights, which compress little"
            )
        return content


def _unpack(path: str | os.PathLike[str], root: pathlib.Path) -> None:
    source = os.fspath(path)
    is_gzip = file_kind(path) in ("tar_gz", "gzip")
    limit = _MAX_GROWTH * os.path.getsize(path) + _FREE_BYTES
    with gzip.open(path) if is_gzip else open(path, "rb") as file:
        stream = _LimitedStream(file, limit, source)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= _MAX_MEMBERS:
                    raise InputError(
                        f"{source} has more than {_MAX_MEMBERS:,} files"
                    )
                if len(pathlib.PurePath(member.name).parts) > _MAX_DEPTH:
                    raise InputError(
                        f"{source} has folders nested deeper than "
                        f"{_MAX_DEPTH} levels"
                    )
                # Sparse files are a few bytes that expand to any size. Chains
                # of links lead out of the folder in spite of tarfile's filter
                # in many versions of Python (CVE-2025-4517).
                is_plain = member.isreg() and not member.issparse()
                if not (is_plain or member.isdir()):
                    raise InputError(
                        f"{source} is not safe to unpack: {member.name} is a "
                        "link, a device or a sparse file; pack the files that "
                        "links lead to (tar -h)"
                    )
                # macOS adds a file ._x for each file x.
                if not pathlib.PurePath(member.name).name.startswith("._"):
                    archive.extract(member, root, filter="data")
        while rest := stream.read(_CHUNK):
            if rest.strip(b"\0"):
                raise tarfile.ReadError("unexpected data after its end")
