"""Files that travel inside a LiteRT model: vocabulary, labels."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping

# Of all files, so that equal exports have equal bytes; the oldest that ZIP has.
_DATE = (1980, 1, 1, 0, 0, 0)


def append_files(
    path: str | os.PathLike[str], files: Mapping[str, bytes]
) -> None:
    """Appends a ZIP archive to a model.

    So TensorFlow Lite's metadata has associated files: interpreters read a
    model from its front, and unpackers an archive from its end. The files are
    stored without compression, to be read where they are.

    Args:
      path: the model's file.
      files: name -> content.
    """
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
