"""Folders that appear, are replaced and are locked as a whole."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Iterator

from albert_tf.errors import InputError
from albert_tf.files import PARTIAL, Path, local_path, real_path, writing


@contextlib.contextmanager
def temporary_folder(
    path: Path, needed: int = 0, job: str = ""
) -> Iterator[pathlib.Path]:
    """Gives the block an empty folder beside `path`, which is removed after it.

    It is a hidden sibling of `path`, so that renaming it or its files to `path`
    is one step. A process that is killed leaves its folder, hidden and locked
    by nobody; the next one that writes to `path` removes it.

    A block that can continue the work of another names its `job`. While there
    is the folder's `job_file`, which it writes, the folder stays if the block
    fails, and a later block with the same job gets it.

    Args:
      path: a local folder that is to be made or filled; missing parents are
        made. Links are followed.
      needed: see `writing`.
      job: a line that says what is made, and of what.

    Yields:
      The temporary folder, which is empty unless it has a `job_file`.

    Raises:
      InputError: `path` is not local, or no folder can be made beside it.
      StorageError: the disk is full.
    """
    path = real_path(local_path(path))
    temporary, lock = _remove_abandoned(path, job) or _make_locked(path)
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, lock)
        try:
            with writing(path, needed):
                yield temporary
        except BaseException:
            if not job_file(temporary).exists():
                _remove(temporary)
            else:
                print(
                    f"{path}: unfinished; the same command continues, or "
                    f"remove {temporary}",
                    file=sys.stderr,
                )
            raise
        _remove(temporary)


def job_file(temporary: pathlib.Path) -> pathlib.Path:
    """Returns the path of a file beside a temporary folder.

    Its first line is the folder's job. The rest is whatever helps to continue.
    It has to be removed before the folder is given away by `replace_folder`,
    which may leave another one in its place.
    """
    return temporary.with_suffix(".job")


def _remove(temporary: pathlib.Path) -> None:
    job = job_file(temporary)
    # First: nobody shall go on with what is half removed.
    for path in (job, job.with_name(job.name + PARTIAL)):
        path.unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def new_folder(
    path: Path, overwrite: bool = False, marker: str = "saved_model.pb"
) -> Iterator[pathlib.Path]:
    """Gives the block a temporary folder and renames it to `path` at the end.

    If the block fails, the `temporary_folder` is removed, and whatever was at
    `path` is still there.

    Args:
      path: the folder to make; missing parents are made too.
      overwrite: whether a finished folder at `path` is replaced. Nothing else
        is.
      marker: a file by which a finished folder of this kind is known.

    Yields:
      The temporary folder, which exists and is empty.

    Raises:
      InputError: `path` is taken, is not local, or cannot be made.
      StorageError: the disk is full.
    """
    path = local_path(path)
    _remove_abandoned(real_path(path))
    _check_free(path, overwrite, marker)
    with temporary_folder(path) as temporary:
        yield temporary
        _check_free(path, overwrite, marker)  # Making an export takes a while.
        _move(temporary, real_path(path))


def replace_folder(
    source: pathlib.Path,
    path: Path,
    *,
    obsolete: Collection[str] = (),
    marker: str | None = None,
) -> None:
    """Makes a finished temporary folder the new content of a folder.

    This is one step, so that who looks finds the old content or the new one.
    Files of other names at `path` stay: they are linked into the new folder.

    Args:
      source: a `temporary_folder` of `path`.
      path: the folder; may exist.
      obsolete: names of files at `path` that go with the old content.
      marker: a file of `source` without which nobody takes the folder for
        complete. With it, a folder that cannot be replaced (see
        `check_replaceable`) gets file by file, the marker last, after the old
        one is removed.

    Raises:
      InputError: `path` is no folder, or cannot be replaced.
    """
    path = real_path(path)
    if os.path.lexists(path) and not path.is_dir():
        raise InputError(f"{path}: is a file; name a folder")
    names = set(os.listdir(source))
    if _why_fixed(path) and marker in names:
        (path / marker).unlink(missing_ok=True)
        for name in sorted(names, key=lambda name: name == marker):
            os.replace(source / name, path / name)
        return
    check_replaceable(path)
    if path.is_dir():
        _link_others(path, source, names.union(obsolete))
    _move(source, path)


def check_replaceable(path: Path) -> None:
    """Checks that a folder, if it exists, can be replaced by another one.

    Raises:
      InputError: it is a mount point, or this process works in it.
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
    """Links what is at `path`, except for some names, into `source`."""

    def link(file: str, new: str) -> None:
        try:
            os.link(file, new, follow_symlinks=False)
        except OSError as error:
            # Another file system is mounted there, or this one has no links.
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
            f"{path}: holds {file}, which cannot be kept ({reason}); move it "
            "away or choose another folder"
        ) from None


def _place_of_temporaries(path: pathlib.Path) -> pathlib.Path:
    """Returns a folder from which files can be renamed to `path`."""
    return path if os.path.ismount(path) else path.parent


def _make_locked(path: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Makes the temporary folder; returns it and the descriptor of its lock."""
    while True:
        # A random name: TensorFlow Serving ignores it, a second writer cannot
        # meet it. Not tempfile.mkdtemp, whose folders only their owner enters.
        name = f".{path.name}.{uuid.uuid4().hex}.tmp"
        temporary = _place_of_temporaries(path) / name
        try:
            temporary.mkdir(parents=True)
        except OSError as error:
            with writing(path.parent):
                raise InputError(
                    f"cannot make a folder in {path.parent}: {error.strerror}"
                ) from None
        # Until it is locked, another process may remove it as abandoned.
        try:
            lock = os.open(temporary, os.O_RDONLY)
        except FileNotFoundError:
            continue
        # File systems without such locks: see `_remove_abandoned`.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, lock
        os.close(lock)


def _remove_abandoned(
    path: pathlib.Path, job: str = ""
) -> tuple[pathlib.Path, int] | None:
    """Removes temporary folders of `path` whose process was killed.

    A lock tells, not the age or the number of a process: the system gives it
    up when its process ends, however that happens, and containers and (on most
    shared file systems) machines respect each other's. Where there are no
    locks of folders, as on NFS, nothing is removed.

    A process killed between the two renamings of `_move` has left the old
    content of `path` as `.<name>.<random>.old`, which gets its name back.

    Returns:
      The one folder of this job that stays, and the descriptor of its lock.
    """
    place = _place_of_temporaries(path)
    name = re.compile(
        rf"(\.{re.escape(path.name)}\.[0-9a-f]{{32}})"
        r"\.(tmp|old|job|job\.partial)"
    )
    try:
        found = [name.fullmatch(x.name) for x in place.iterdir()]
    except OSError:
        return None  # No such folder yet, or none to be listed.
    kept = None
    for stem in {match[1] for match in found if match}:
        new, old = place / f"{stem}.tmp", place / f"{stem}.old"
        if not new.exists():
            shutil.rmtree(old, ignore_errors=True)
            _remove(new)
            continue
        with contextlib.suppress(OSError):
            lock = os.open(new, os.O_RDONLY)
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
                    print(
                        f"{path}: discards unfinished work, which was of other "
                        "settings or inputs",
                        file=sys.stderr,
                    )
                _remove(new)
    return kept


def _job_of(temporary: pathlib.Path) -> str:
    try:
        with open(job_file(temporary), encoding="utf-8") as file:
            return file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError):
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
            f"{path} exists and holds no {marker}, so it is not overwritten; "
            "choose another path"
        )
    check_replaceable(path)


def _move(source: pathlib.Path, target: pathlib.Path) -> None:
    """Renames `source`, a folder, to `target`; a folder there is replaced."""
    try:
        os.rename(source, target)  # To a free name, or over an empty folder.
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    if swap_folders(source, target):
        return  # The old one has the temporary name, and goes with it.
    # The old one has to step aside. For a moment there is neither, and who is
    # killed in it leaves the old one to `_remove_abandoned`.
    old = source.with_suffix(".old")
    os.rename(target, old)
    try:
        os.rename(source, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


_CURRENT_FOLDER = -100  # AT_FDCWD: relative paths count from there.
_EXCHANGE = 2  # RENAME_EXCHANGE


def swap_folders(first: Path, second: Path) -> bool:
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
    # EPERM: containers may forbid system calls that they do not know.
    if error in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(error, os.strerror(error), os.fspath(first))
