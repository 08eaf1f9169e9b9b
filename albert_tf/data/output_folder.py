"""A folder that appears with its manifest and all files, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from albert_tf.data.manifest import MANIFEST_NAME, data_files, read_manifest
from albert_tf.errors import InputError


def local_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the absolute path of an output folder.

    Raises:
      InputError: it is remote (`gs://...`).
    """
    if "://" in os.fspath(path):
        raise InputError(
            f"output {path}: data are made in a local folder, which appears "
            "when it is complete; name one, and copy it there"
        )
    return pathlib.Path(path).absolute()


@contextlib.contextmanager
def scratch_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes an empty folder beside `folder`, which is gone at the end.

    A process that is killed leaves it behind; its name, `.<folder>.partial-`
    and a random number, says that nothing in it is finished.
    """
    scratch = folder.parent / f".{folder.name}.partial-{uuid.uuid4().hex[:8]}"
    try:
        scratch.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"output {folder}: cannot be made: {error.strerror}"
        ) from None
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_output_folder(
    folder: pathlib.Path, new_files: Iterable[str], overwrite: bool
) -> None:
    """Checks that data may be put into `folder`.

    Args:
      folder: where they are to go.
      new_files: names of the files, without the manifest.
      overwrite: whether what is there may be replaced.

    Raises:
      InputError: the folder is a file; it is not empty, without `overwrite`; or
        one of the new files is there and no manifest lists it.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"output {folder}: is a file; name a folder")
    present = {path.name for path in folder.iterdir()}
    if present and not overwrite:
        finished = MANIFEST_NAME in present
        what = "a finished data set" if finished else "other files"
        raise InputError(
            f"output {folder}: already holds {what}; choose another folder, or "
            "give overwrite"
        )
    not_ours = present.intersection(new_files).difference(_listed_files(folder))
    if not_ours:
        raise InputError(
            f"output {folder}: {min(not_ours)} is there and belongs to no "
            "finished data set; move it away or choose another folder"
        )


def publish(
    scratch: pathlib.Path, folder: pathlib.Path, manifest: dict[str, Any]
) -> None:
    """Puts the files of `scratch` and a manifest in place.

    A folder that is new or empty appears in one step. In any other the old
    manifest goes first and the new one comes last, so that no moment shows a
    data set that is not whole. Files that no manifest lists are left alone,
    provided `check_output_folder` has been asked.
    """
    (scratch / MANIFEST_NAME).write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )
    if not folder.exists() or not any(folder.iterdir()):
        if folder.exists():
            folder.rmdir()
        scratch.rename(folder)
        return
    old = _listed_files(folder)
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for name in old:
        (folder / name).unlink(missing_ok=True)
    for name in [*data_files(manifest), MANIFEST_NAME]:
        os.replace(scratch / name, folder / name)


def _listed_files(folder: pathlib.Path) -> list[str]:
    """Returns what the manifest in `folder` lists; nothing if there is none."""
    if not (folder / MANIFEST_NAME).exists():
        return []
    return data_files(read_manifest(folder))
