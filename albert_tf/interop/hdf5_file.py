"""HDF5 weights files of Keras and KerasHub.

HDF5 is a file system in a file: datasets may be stored in other files, be views
of other datasets, or have no data. All of this is rejected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.file_types import (
    TensorFile,
    check_kind,
    check_size,
    reading,
)

if TYPE_CHECKING:
    import h5py

_KIND = "hdf5"
_MAX_OBJECTS = 50_000  # groups and datasets of a file
_FILTERS = {2, 3}  # HDF5's ids of shuffle and Fletcher32
_DAMAGES = (OSError, RuntimeError, KeyError, ValueError, TypeError)


def open_hdf5(path: str | os.PathLike[str]) -> TensorFile:
    """Opens an HDF5 file; arrays are read on access.

    Datasets that are virtual, compressed, stored outside of the file or larger
    than it, and links other than hard links are an `InputError`.
    """
    import h5py

    path = os.fspath(path)
    check_kind(path, (_KIND,))
    with reading(path, (_KIND,), _DAMAGES), h5py.File(path, "r") as file:
        shapes = {
            name: tuple(dataset.shape)
            for name, dataset in _datasets(file, path)
        }
    check_size(shapes, os.path.getsize(path), path)
    return TensorFile(shapes, lambda name: _read(path, name), path, _KIND)


def _read(path: str, name: str) -> np.ndarray:
    import h5py

    with (
        reading(path, (_KIND,), _DAMAGES, f"{name}: "),
        h5py.File(path, "r") as file,
    ):
        dataset = file[name]
        values = dataset[()]
        # bfloat16 is the upper half of a float32.
        if (
            values.dtype.itemsize == 2
            and dataset.attrs.get("dtype") == "bfloat16"
        ):
            upper = values.view(np.uint16).astype(np.uint32)
            values = (upper << 16).view(np.float32)
        return values


def _datasets(file: h5py.File, path: str) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields each dataset and its path, after checking its storage."""
    import h5py

    pending: list[tuple[str, h5py.Group]] = [("", file)]
    seen: set[h5py.HLObject] = set()
    while pending:
        prefix, group = pending.pop()
        for name in group:
            inside = f"{prefix}{name}"
            if type(group.get(name, getlink=True)) is not h5py.HardLink:
                raise InputError(
                    f"{path}: {inside} is a link; expected the weights "
                    "themselves"
                )
            item = group[name]
            if item in seen or len(seen) >= _MAX_OBJECTS:
                raise InputError(
                    f"{path}: {inside} has two names, or is one of more than "
                    f"{_MAX_OBJECTS:,} objects"
                )
            # Items are equal if they have the same address in the file.
            seen.add(item)
            if isinstance(item, h5py.Group):
                pending.append((f"{inside}/", item))
            elif isinstance(item, h5py.Dataset):
                problem = _storage_problem(item, os.path.getsize(path))
                if problem:
                    raise InputError(f"{path}: {inside} {problem}")
                yield inside, item


def _storage_problem(dataset: h5py.Dataset, file_bytes: int) -> str:
    """Returns why a dataset must not be read, or ""."""
    if dataset.is_virtual or dataset.external:
        return "is stored outside of the file; expected the weights in it"
    if dataset.dtype.kind not in "biuf" and dataset.dtype.str != "|V2":
        return f"holds {dataset.dtype}, expected numbers"
    settings = dataset.id.get_create_plist()
    filters = range(settings.get_nfilters())
    if not {settings.get_filter(i)[0] for i in filters} <= _FILTERS:
        return "is compressed, which is not supported; save it uncompressed"
    needed = dataset.dtype.itemsize * int(np.prod(dataset.shape, dtype=object))
    stored = dataset.id.get_storage_size()
    chunk = dataset.dtype.itemsize * int(
        np.prod(dataset.chunks or (0,), dtype=object)
    )
    if not needed <= stored <= file_bytes or chunk > 2 * needed + (1 << 16):
        return (
            f"of shape {list(dataset.shape)} takes {needed:,} bytes, but the "
            f"file of {file_bytes:,} bytes stores {stored:,} of them"
        )
    return ""
