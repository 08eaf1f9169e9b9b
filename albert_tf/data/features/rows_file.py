"""`Rows` as files."""

from __future__ import annotations

import json
import os
import struct
import types
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.data.features.rows import Rows
from albert_tf.errors import InputError

_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_HEADER = "header"
_COLUMN, _TOKEN_COLUMN = "column/", "token_column/"


def write_rows(
    rows: Rows,
    path: str | os.PathLike,
    *,
    origin: Mapping[str, Any] = _NOTHING,
    remarks: str = "",
) -> None:
    """Writes one file: an uncompressed `.npz`, without pickles.

    Args:
      rows: any.
      path: the file, whose name stays as it is.
      origin: what the rows were made from, as JSON values.
      remarks: what is to be said whenever they are used.
    """
    header = {
        "pad_id": rows.pad_id,
        "rows_per_example": rows.rows_per_example,
        "token_padding": dict(rows.token_padding),
        "origin": dict(origin),
        "remarks": remarks,
    }
    arrays = {"ids": rows.ids, "types": rows.types, "starts": rows.starts}
    arrays |= {_COLUMN + k: v for k, v in rows.columns.items()}
    arrays |= {_TOKEN_COLUMN + k: v for k, v in rows.token_columns.items()}
    with open(path, "wb") as file:
        np.savez(file, **arrays, **{_HEADER: np.array(json.dumps(header))})


def read_rows(
    path: str | os.PathLike,
    *,
    origin: Mapping[str, Any] | None = None,
) -> tuple[Rows, str]:
    """Reads what `write_rows` has written.

    Args:
      path: the file.
      origin: what the rows must have been made from; None: anything.

    Returns:
      The rows and the remarks.

    Raises:
      InputError: the file cannot be read, is damaged, has another origin or
        is something else.
    """
    try:
        # NumPy checks no sum of an array that a damaged header makes shorter.
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
        if damaged:
            raise zipfile.BadZipFile(f"wrong checksum of {damaged}")
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop(_HEADER)))
        its_origin = header.pop("origin")
        remarks = header.pop("remarks")
        rows = Rows(
            ids=arrays.pop("ids"),
            types=arrays.pop("types"),
            starts=arrays.pop("starts"),
            columns=_named(arrays, _COLUMN),
            token_columns=_named(arrays, _TOKEN_COLUMN),
            **header,
        )
    # zipfile raises all of these for damaged files.
    except (
        OSError,
        EOFError,
        LookupError,
        NotImplementedError,
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
        AttributeError,
        struct.error,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InputError(
            f"{path}: damaged, or no file of features ({error}); remove it"
        ) from None
    if origin is not None and its_origin != origin:
        raise InputError(f"{path}: features of something else; remove it")
    return rows, remarks


def _named(
    arrays: Mapping[str, np.ndarray], prefix: str
) -> dict[str, np.ndarray]:
    """Returns the arrays whose names have a prefix, by what follows it."""
    return {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix)
    }
