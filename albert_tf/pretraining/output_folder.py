"""Output folder of create-data, complete with its manifest or without one."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from albert_tf.errors import InputError
from albert_tf.pretraining.manifest import (
    MANIFEST_NAME,
    data_files,
    find_manifest,
)


def check_output_folder(
    folder: pathlib.Path, new_files: Iterable[str], overwrite: bool
) -> None:
    """Checks that a data set may be written to a folder.

    Args:
      folder: the folder, which may exist.
      new_files: names of the files to write, without the manifest.
      overwrite: whether a finished data set may be replaced.

    Raises:
      InputError: the folder is a file; it is not empty, without `overwrite`; or
        one of the new files exists and no manifest lists it.
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
            f"output {folder}: {min(not_ours)} exists and belongs to no "
            "finished data set; move it away or choose another folder"
        )


def publish(
    temporary: pathlib.Path, folder: pathlib.Path, manifest: dict[str, Any]
) -> None:
    """Moves the files of a temporary folder, and a manifest, into place.

    A folder that is new or empty appears in one step. In any other the old
    manifest is removed first and the new one added last, so that there never is
    a manifest of an incomplete data set. Files that no manifest lists are kept,
    provided that `check_output_folder` was called before.

    Args:
      temporary: a `temporary_folder` of `folder` with all files.
      folder: the output folder.
      manifest: the manifest to write.
    """
    (temporary / MANIFEST_NAME).write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", "utf-8"
    )
    if not folder.exists() or not any(folder.iterdir()):
        if folder.exists():
            folder.rmdir()
        temporary.rename(folder)
        return
    old = _listed_files(folder)
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for name in old:
        (folder / name).unlink(missing_ok=True)
    for name in [*data_files(manifest), MANIFEST_NAME]:
        os.replace(temporary / name, folder / name)


def _listed_files(folder: pathlib.Path) -> list[str]:
    """Returns the files that the manifest in a folder, if any, lists."""
    manifest = find_manifest(folder)
    return data_files(manifest) if manifest else []
