"""Folders that are created and replaced atomically."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Collection, Iterator

from albert_tf.errors import InputError
from albert_tf.files import Path, local_path, output_path, real_path, writing
from albert_tf.input_files import open_input

# Neither a link nor a pipe, which in a shared folder may be another user's.
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_JOB = 1 << 20  # bytes of its first line

_logger = logging.getLogger(__name__)


@contextlib.contextmanager
def temporary_folder(
    path: Path, needed: int = 0, job: str = ""
) -> Iterator[pathlib.Path]:
    """Creates an empty folder beside `path`, which is removed after the block.

    It is a hidden sibling of `path`, so that renaming it or its files to `path`
    is atomic. A killed process leaves it behind, hidden and unlocked; the next
    process that writes to `path` removes it.

    A block that can be resumed passes a `job`. If it fails after writing the
    folder's `job_file`, the folder is kept, and a later block with the same job
    continues in it.

    Args:
      path: a local folder to create or fill. Missing parents are created, and
        links are followed.
      needed: see `writing`.
      job: one line that identifies the output and its inputs.

    Yields:
      The temporary folder, which is empty unless it has a `job_file`.

    Raises:
      InputError: if `path` is not local, or if the folder cannot be created.
      StorageError: if the disk is full.
    """
    path = output_path(local_path(path))
    temporary, lock = _make_locked(path)
    # Its owner need not be this user, on some mounted file systems.
    if kept := _remove_abandoned(path, os.fstat(lock).st_uid, job):
        temporary.rmdir()
        os.close(lock)
        temporary, lock = kept
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, lock)
        try:
            with writing(path, needed):
                yield temporary
        except BaseException:
            if not job_file(temporary).exists():
                _remove(temporary)
            else:
                _logger.warning(
                    "%s: unfinished; the same command continues, or remove %s",
                    path,
                    temporary,
                )
            raise
        _remove(temporary)


def job_file(temporary: pathlib.Path) -> pathlib.Path:
    """Returns the path of the job file in a temporary folder.

    Its first line is the job of the folder; the rest is state that a later
    process needs to continue. It must be removed before `replace_folder`.
    """
    return temporary / ".job"


def _remove(temporary: pathlib.Path) -> None:
    # First, so that no process continues in a partly removed folder.
    with contextlib.suppress(OSError):
        job_file(temporary).unlink()
    shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def new_folder(
    path: Path, overwrite: bool = False, marker: str = ""
) -> Iterator[pathlib.Path]:
    """Creates a temporary folder, and renames it to `path` after the block.

    If the block fails, the temporary folder is removed, and `path` is left
    unchanged.

    Args:
      path: the folder to create. Missing parents are created.
      overwrite: whether to replace a finished folder at `path`. Nothing else is
        ever replaced.
      marker: the file that identifies a finished folder of this kind; needed
        to overwrite.

    Yields:
      The temporary folder, which is empty.

    Raises:
      InputError: if `path` exists, is not local, or cannot be created.
      StorageError: if the disk is full.
    """
    path = local_path(path)
    target = output_path(path)
    _remove_abandoned(target, os.geteuid())
    _check_free(path, overwrite, marker)
    with temporary_folder(path) as temporary:
        yield temporary
        _check_free(path, overwrite, marker)  # The block may take minutes.
        _move(temporary, target)


def replace_folder(
    source: pathlib.Path,
    path: Path,
    *,
    obsolete: Collection[str] = (),
    marker: str | None = None,
) -> None:
    """Atomically replaces a folder by a finished temporary folder.

    Other processes see either the old content or the new one. Files at `path`
    with names that are not in `source` are kept: they are linked into it.

    Args:
      source: a `temporary_folder` of `path`.
      path: the folder, which may exist.
      obsolete: names of files at `path` to remove.
      marker: a file of `source` that marks the folder as complete. If given, a
        folder that cannot be replaced (see `check_replaceable`) is filled
        instead: its marker is removed, then files are moved, the marker last.

    Raises:
      InputError: if `path` is not a folder, or cannot be replaced.
    """
    path = output_path(path)
    if os.path.lexists(path) and not path.is_dir():
        raise InputError(f"{path}: is a file; name a folder")
    names = set(os.listdir(source))
    if _why_fixed(path) and marker in names:
        (path / marker).unlink(missing_ok=True)
        for name in {*obsolete, *names}:
            if (path / name).is_dir():
                shutil.rmtree(path / name)
            elif name in obsolete:
                (path / name).unlink(missing_ok=True)
        for name in sorted(names, key=lambda name: name == marker):
            os.replace(source / name, path / name)
        return
    check_replaceable(path)
    if path.is_dir():
        _link_others(path, source, names.union(obsolete))
    _move(source, path)


def check_replaceable(path: Path) -> None:
    """Checks that a folder, if it exists, can be replaced.

    Raises:
      InputError: if it is a mount point or contains the current folder.
    """
    if reason := _why_fixed(real_path(path)):
        raise InputError(
            f"{path}: is {reason}, so it cannot be replaced as a whole; name a "
            "folder in it"
        )


def _why_fixed(path: pathlib.Path) -> str | None:
    if os.path.ismount(path):
        return "a mount point"
    if real_path(os.curdir).is_relative_to(path):
        return "the current folder or one above it"
    return None


def _link_others(
    path: pathlib.Path, source: pathlib.Path, names: Collection[str]
) -> None:
    """Links the content of `path`, except for some names, into `source`."""

    def link(file: str, new: str) -> None:
        try:
            os.link(file, new, follow_symlinks=False)
        except OSError as error:
            # A mounted file system cannot be kept. Without links, copy.
            if error.errno == errno.EXDEV:
                raise
            shutil.copy2(file, new, follow_symlinks=False)

    def without(folder: str, _: list[str]) -> Collection[str]:
        return names if folder == os.fspath(path) else ()

    try:
        shutil.copytree(
            path,
            source,
            symlinks=True,
            ignore=without,
            copy_function=link,
            dirs_exist_ok=True,
        )
    except shutil.Error as error:
        file, _, reason = error.args[0][0]
        raise InputError(
            f"{path}: contains {file}, which cannot be kept ({reason}); move "
            "it away or choose another folder"
        ) from None


def _temporaries_folder(path: pathlib.Path) -> pathlib.Path:
    """Returns the folder for temporary folders that are renamed to `path`."""
    return path if os.path.ismount(path) else path.parent


def _make_locked(path: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Creates a temporary folder; returns it and the descriptor of its lock."""
    while True:
        # A random name, which TensorFlow Serving ignores. Not by
        # tempfile.mkdtemp, whose folders are accessible only to their owner.
        name = f".{path.name}.{uuid.uuid4().hex}.tmp"
        temporary = _temporaries_folder(path) / name
        try:
            temporary.mkdir(parents=True)
        except OSError as error:
            with writing(path.parent):
                raise InputError(
                    f"cannot create a folder in {path.parent}: {error.strerror}"
                ) from None
        # Until it is locked, another process may remove it as abandoned.
        try:
            lock = os.open(temporary, _OPEN)
        except FileNotFoundError:
            continue
        # Some file systems do not support this; see `_remove_abandoned`.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, lock
        os.close(lock)


def _remove_abandoned(
    path: pathlib.Path, owner: int, job: str = ""
) -> tuple[pathlib.Path, int] | None:
    """Removes temporary folders of `path` whose process was killed.

    These are not locked: the system releases the lock when a process ends for
    any reason, and locks work across containers and, on most shared file
    systems, machines. Where folders cannot be locked, as on NFS, nothing is
    removed. Nor are those of other owners, who might know the job.

    A process killed between the two renames of `_move` leaves the old content
    of `path` as `.<name>.<random>.old`, which is renamed back.

    Returns:
      A folder of this job to continue in, and the descriptor of its lock, or
      None.
    """
    parent = _temporaries_folder(path)
    name = re.compile(rf"(\.{re.escape(path.name)}\.[0-9a-f]{{32}})\.(tmp|old)")
    try:
        found = [name.fullmatch(x.name) for x in parent.iterdir()]
    except OSError:
        return None  # It does not exist or cannot be listed.
    kept = None
    for stem in {match[1] for match in found if match}:
        new, old = parent / f"{stem}.tmp", parent / f"{stem}.old"
        # Others may remove them meanwhile.
        with contextlib.suppress(OSError):
            both = [x for x in (new, old) if os.path.lexists(x)]
            if any(os.lstat(x).st_uid != owner for x in both):
                continue
            if not os.path.lexists(new):
                shutil.rmtree(old)
                continue
            lock = os.open(new, _OPEN)
            with contextlib.ExitStack() as stack:
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if old.exists() and not path.exists():
                    os.rename(old, path)
                if kept is None and job and _job_of(new) == job:
                    stack.pop_all()
                    kept = new, lock
                    continue
                if job and _job_of(new):
                    _logger.warning(
                        "%s: discards unfinished work with other settings or "
                        "inputs",
                        path,
                    )
                _remove(new)
    return kept


def _job_of(temporary: pathlib.Path) -> str:
    try:
        with open_input(job_file(temporary)) as file:
            return file.readline(_MAX_JOB).decode().rstrip("\n")
    except (OSError, ValueError):
        return ""


def _check_free(path: pathlib.Path, overwrite: bool, marker: str) -> None:
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise InputError(
            f"{path} exists; choose another path, or replace it with "
            "--overwrite (overwrite=True in Python)"
        )
    if not (path / marker).is_file():
        raise InputError(
            f"{path} exists and has no {marker}, so it is not overwritten; "
            "choose another path"
        )
    check_replaceable(path)


def _move(source: pathlib.Path, target: pathlib.Path) -> None:
    """Renames a folder to `target`, replacing a folder there."""
    try:
        os.rename(source, target)  # If `target` does not exist or is empty.
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if swap_folders(source, target):
        return  # The old folder is removed as the temporary one.
    # Not atomic: if this process is killed in between, `_remove_abandoned`
    # restores the old folder.
    old = source.with_suffix(".old")
    os.rename(target, old)
    try:
        os.rename(source, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


_CURRENT_FOLDER = -100  # AT_FDCWD: the base of relative paths
_EXCHANGE = 2  # RENAME_EXCHANGE


def swap_folders(first: Path, second: Path) -> bool:
    """Atomically exchanges the names of two folders.

    Linux supports this since 3.15 on most local file systems, but Python has no
    function for it.

    Args:
      first: a folder.
      second: another folder on the same file system.

    Returns:
      False if the system or the file system does not support it.

    Raises:
      OSError: if the exchange fails.
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
    # EPERM: containers may forbid unknown system calls.
    if error in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(error, os.strerror(error), os.fspath(first))
