"""Held-out documents that other records of a run train on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from albert_tf.data.record_files import RecordFile

# Settings that decide which documents are held out, besides the fraction.
_SPLIT_SETTINGS = (
    "seed",
    "text_format",
    "text_field",
    "language",
    "encoding_errors",
)


def find_leaks(
    trained: Iterable[RecordFile], scored: Iterable[RecordFile]
) -> Iterator[str]:
    """Yields warnings of folders that train on what others hold out.

    They are made from the same text, but hold out other documents, or fewer;
    see `is_heldout`. Or files of the folder were given, held-out ones among
    them. There is at most one warning of each kind for a folder.
    Nothing is known of files without a manifest.

    Args:
      trained: all files to train on.
      scored: the held-out files to evaluate on.
    """
    trained = tuple(trained)
    for folder in sorted(
        {os.path.dirname(x.path) for x in trained if _is_heldout(x)}
    ):
        yield (
            f"records {folder}: its held-out records are trained on, because "
            "files were given; give the folder, or only the files of its split "
            "'train'"
        )
    holding_out = _manifests_by_folder(scored)
    for folder, manifest in _manifests_by_folder(trained).items():
        for other, its in holding_out.items():
            differences = _differences(manifest["settings"], its["settings"])
            if differences and _text_files(manifest) & _text_files(its):
                values = " and ".join(
                    f"{name}={value} (not {expected})"
                    for name, (value, expected) in differences.items()
                )
                flags = " and ".join(f"--{name}" for name in differences)
                yield (
                    f"records {folder}: made from text of {other} with "
                    f"{values}, so training sees documents that {other} holds "
                    f"out and evaluations score; make both with the same "
                    f"{flags}"
                )
                break


def _is_heldout(file: RecordFile) -> bool:
    """Returns whether a file's manifest lists it as held out."""
    splits = file.manifest["splits"] if file.manifest else {}
    listed = splits.get("heldout", {"files": ()})["files"]
    return os.path.basename(file.path) in {entry["name"] for entry in listed}


def _manifests_by_folder(
    files: Iterable[RecordFile],
) -> dict[str, Mapping[str, Any]]:
    return {
        os.path.dirname(file.path): file.manifest
        for file in files
        if file.manifest
    }


def _differences(
    settings: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Returns the settings by which other documents are held out.

    A document is held out if a hash of seed and sentences is below the share,
    so a larger share holds out those of a smaller one, and others.
    """
    found = {
        name: (settings[name], expected[name])
        for name in (*_SPLIT_SETTINGS, "heldout_fraction")
        if name in settings and name in expected
    }
    return {
        name: (value, other)
        for name, (value, other) in found.items()
        if (value < other if name == "heldout_fraction" else value != other)
        # Lines are sentences in any language.
        and (name != "language" or settings.get("text_format") != "lines")
    }


def _text_files(manifest: Mapping[str, Any]) -> set[str]:
    """Returns the hashes of the text files."""
    inputs = manifest.get("inputs", ())
    return {x["sha256"] for x in inputs if "sha256" in x}
