"""Checks of the files of an export, whatever its kind."""

from __future__ import annotations

import os
import re
import sys
import tempfile

from .exported import Exported
from .findings import expect

_MARKERS = {"litert": ("model.tflite",)}
_SAVED_MODEL = ("saved_model.pb", "variables/variables.index")
# Where people's files are, on Linux, macOS, Windows and in notebooks. What
# precedes the first slash keeps out addresses and names inside of a graph.
_PLACES = (
    rb"(?<![\w.~:/)>-])/(?:home|root|Users|tmp|var|mnt|opt|usr|srv|data|work|"
    rb"workspace|content|kaggle|scratch|private)/[\w.-]{2}[\w./-]*"
    rb"|(?<!\w)[A-Za-z]:\\Users\\[\w.-]{2}[\w.\\-]*"
)
# A vocabulary is made of a user's text, which may be of paths; among random
# numbers there may be anything.
_ONLY_PLACES_HERE = ("assets", "variables.data", "model.tflite")


def finished(exported: Exported) -> str:
    """The card and all files of the kind are there, none of them empty."""
    wanted = _MARKERS.get(exported.kind, _SAVED_MODEL)
    for name in ("export.json", "README.md", *wanted):
        path = exported.path(*name.split("/"))
        expect(os.path.isfile(path), f"{name} is not there")
        expect(os.path.getsize(path), f"{name} is empty")
    size = sum(os.path.getsize(path) for path in exported.files())
    return f"{len(exported.files())} files, {size:,} bytes"


def no_absolute_paths(exported: Exported) -> str:
    """No file tells where the export was made."""
    for path in exported.files():
        with open(path, "rb") as file:
            content = file.read()
        name = os.path.relpath(path, exported.folder)
        for place in _places_here(exported):
            expect(place not in content, f"{name} has {place.decode()!r}")
        if any(part in name for part in _ONLY_PLACES_HERE):
            continue
        found = re.search(_PLACES, content)
        if found:
            expect(False, f"{name} has {found[0].decode(errors='replace')!r}")
    return ""


def _places_here(exported: Exported) -> list[bytes]:
    """Returns folders of this machine, which may have made the export."""
    folders = {
        os.path.dirname(os.path.abspath(exported.folder)),
        os.path.expanduser("~"),
        sys.prefix,
        tempfile.gettempdir(),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
    # Of one part, such as /usr or /tmp, tell nothing.
    return [
        os.fsencode(folder) + os.fsencode(os.sep)
        for folder in folders
        if folder.count(os.sep) > 1
    ]


CHECKS = {"finished": finished, "no absolute paths": no_absolute_paths}
