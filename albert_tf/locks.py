"""Lock files: files that one process at a time creates and holds."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat

from albert_tf.errors import InputError

# Not through a link, which in a shared folder may be another user's.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


def create_locked(path: str) -> tuple[int, str]:
    """Creates an empty file, which is locked until its process ends.

    A file that a killed process left, and that is not locked, is removed.
    Nothing that exists is ever written to.

    Args:
      path: the file. Its name is predictable, so that processes meet.

    Returns:
      The descriptor of the file, and why the file system does not support
      locks, or "".

    Raises:
      BlockingIOError: if another process has locked the file.
      InputError: if something else than a regular file is there.
      OSError: if the file cannot be created.
    """
    while True:
        try:
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            _remove_abandoned(path)
            continue
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, descriptor)
            problem = _lock(descriptor)
            # Until it is locked, another process may remove it as abandoned.
            if is_open_as(descriptor, path):
                stack.pop_all()
                return descriptor, problem


def _remove_abandoned(path: str) -> None:
    try:
        descriptor = os.open(path, _FLAGS | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = "a link" if os.path.islink(path) else error.strerror
        raise _in_the_way(path, reason) from None
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _in_the_way(path, "not a regular file")
        _lock(descriptor)
        if is_open_as(descriptor, path):
            try:
                os.unlink(path)
            except OSError as error:
                raise _in_the_way(path, error.strerror) from None


def _in_the_way(path: str, reason: str | None) -> InputError:
    return InputError(
        f"{path}: in the way of a temporary file, and not left by one of your "
        f"processes ({reason}); remove it, or choose another path"
    )


def _lock(descriptor: int) -> str:
    """Locks an open file; returns why it cannot, or ""."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        return error.strerror or str(error)
    return ""


def is_open_as(descriptor: int, path: str) -> bool:
    """Returns whether a path is still that of an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def holder_of(path: str) -> str:
    """Names the process that holds the lock of a file, for error messages."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        inode = os.lstat(path).st_ino
        with open("/proc/locks", encoding="utf-8") as table:
            pattern = rf": FLOCK +\S+ +WRITE ([1-9]\d*) \S+:{inode} "
            if found := re.search(pattern, table.read()):
                return f"process {found[1]} on this machine"
    return "another process"
