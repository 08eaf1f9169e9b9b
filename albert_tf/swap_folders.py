"""Two folders that change names in one step."""

from __future__ import annotations

import ctypes
import errno
import os

_CURRENT_FOLDER = -100  # AT_FDCWD: relative paths count from there.
_EXCHANGE = 2  # RENAME_EXCHANGE


def swap_folders(
    first: str | os.PathLike[str], second: str | os.PathLike[str]
) -> bool:
    """Gives each of two folders the other's name.

    At no moment is one of the names free. Linux can do this since 3.15 on most
    local file systems; Python has no function for it.

    Args:
      first: a folder.
      second: another, on the same file system.

    Returns:
      False where the system or the file system cannot; nothing was done then.

    Raises:
      OSError: it failed, as a renaming may.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    failed = rename(
        _CURRENT_FOLDER,
        os.fsencode(first),
        _CURRENT_FOLDER,
        os.fsencode(second),
        ctypes.c_uint(_EXCHANGE),
    )
    if not failed:
        return True
    error = ctypes.get_errno()
    if error in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(error, os.strerror(error), os.fspath(first))
