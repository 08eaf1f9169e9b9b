"""A lock that keeps two processes from writing the same output."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import pathlib
import socket
import time
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.files import Path, creating, is_remote

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def lock_output(output: Path, file: Path) -> Iterator[None]:
    """Keeps other processes from writing the same output during the block.

    The system releases the lock when the process ends, however it ends. Over
    NFS it holds between machines if the server supports locks. There is a
    warning for a file system without locks; a bucket (`gs://...`) has none.

    Args:
      output: what is written, for error messages.
      file: the lock file, which says who holds the lock. Missing folders are
        created. At the end the file is removed, and such folders if they are
        still empty.

    Raises:
      InputError: another process holds the lock, or the file cannot be written.
      StorageError: the disk is full.
    """
    if is_remote(file):
        yield
        return
    file = pathlib.Path(file)
    created = [x for x in file.parents if not x.exists()]
    with creating(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_locked(file, os.fspath(output))
    with contextlib.ExitStack() as stack:
        for folder in reversed(created):
            stack.callback(_remove_empty, folder)
        stack.callback(os.close, descriptor)
        stack.callback(file.unlink, missing_ok=True)
        since = time.strftime("%Y-%m-%d %H:%M:%S %z")
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{holder} since {since}\n".encode())
        yield


def _remove_empty(folder: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _open_locked(file: pathlib.Path, output: str) -> int:
    """Opens and locks a file; returns its descriptor."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"{output} is being written by {_lock_holder(file)}; wait for "
                "it to end, stop it, or use another folder"
            ) from None
        except OSError as error:
            _logger.warning(
                f"{file}: no lock ({error.strerror}): nothing keeps a second "
                f"process from writing {output}"
            )
            return descriptor
        # The process that held the lock before may have removed the file.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        os.close(descriptor)


def _lock_holder(file: pathlib.Path) -> str:
    for _ in range(20):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            holder = file.read_text()
            if holder.endswith("\n"):
                return holder.strip()
        time.sleep(0.05)  # It is about to write who it is.
    return "another process"
