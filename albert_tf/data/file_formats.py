"""Files that are not text, recognized by their first bytes."""

from __future__ import annotations

import re

from albert_tf.errors import InputError
from albert_tf.files import Path

HEAD_BYTES = 512  # has the mark of a tar file

_RENAME = "decompress it, or let its name end in"
_CONVERT = "convert it, e.g. with iconv -f UTF-16 -t UTF-8"

# Pattern of the first bytes, name, and what to do.
_FORMATS = (
    (
        rb"PAR1\x15",
        "a Parquet file",
        "export it as JSON lines and set text_format=jsonl, or name a data set "
        "of TensorFlow Datasets with tfds:",
    ),
    (rb"\x1f\x8b", "a gzip file", f"{_RENAME} .gz"),
    (rb"BZh[1-9]1AY&SY", "a bzip2 file", f"{_RENAME} .bz2"),
    (rb"\x28\xb5\x2f\xfd", "a Zstandard file", f"{_RENAME} .zst"),
    (rb"\xfd7zXZ\x00", "an xz file", "decompress it"),
    (rb"PK\x03\x04", "a zip file", "unpack it"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z file", "unpack it"),
    (rb"(?s:.{257})ustar", "a tar file", "unpack it"),
    (rb"%PDF-", "a PDF file", "convert it, e.g. with pdftotext"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16", _CONVERT),
)
_MIN_UTF16 = 16  # bytes; a shorter text may be anything


def check_is_text(head: bytes, path: Path) -> None:
    """Checks that the content of a file, decompressed, may be text.

    `head` are its first bytes, about `HEAD_BYTES`.

    Raises:
      InputError: if it has a known format of another kind.
    """
    for pattern, name, remedy in _FORMATS:
        if re.match(pattern, head):
            raise InputError(f"{path}: {name}, not text in UTF-8; {remedy}")
    if len(head) >= _MIN_UTF16:
        # Latin letters are a byte and a NUL, in either order.
        fewer, more = sorted((head[::2].count(0), head[1::2].count(0)))
        if fewer == 0 and 4 * more > len(head):
            order = "LE" if more == head[1::2].count(0) else "BE"
            remedy = _CONVERT.replace("16", f"16{order}")
            raise InputError(f"{path}: UTF-16, not text in UTF-8; {remedy}")
