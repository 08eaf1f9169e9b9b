"""TensorFlow checkpoints, by variable names or object paths."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import (
    tensor_bundle_pb2,
    trackable_object_graph_pb2,
)

from albert_tf.errors import InputError
from albert_tf.input_files import check_regular, read_bytes
from albert_tf.interop.file_types import TensorFile, check_size
from albert_tf.interop.tf_graph import varint

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_FOOTER = 48  # bytes at the end of an index
_MAX_INDEX = 16 << 20
_MAX_RANK = 32
_DAMAGES = (tf.errors.OpError, ValueError, IndexError)


def open_tf_checkpoint(
    prefix: str | os.PathLike[str], *, by_object: bool = False
) -> TensorFile:
    """Opens a checkpoint, of TF1 or TF2.

    Args:
      prefix: its path without ".index".
      by_object: name the tensors of a TF2 checkpoint by their objects' path.

    Returns:
      The tensors: under their names in a TF1 checkpoint; in one of TF2, under
      the names their variables had, or, where those were not recorded, under
      the path of the object.

    Raises:
      InputError: it cannot be read.
    """
    prefix = os.fspath(prefix)
    try:
        file_bytes = _check_index(prefix)
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
        keys = {name: name for name in shapes}
        if by_object:
            keys = {name.removesuffix(_SUFFIX): name for name in shapes}
            keys.pop(_OBJECT_GRAPH, None)
        elif _OBJECT_GRAPH in shapes:
            graph = reader.get_tensor(_OBJECT_GRAPH)
            keys = _keys_by_variable_name(graph, set(shapes), prefix)
    except InputError:
        raise
    except (*_DAMAGES, OSError, message.DecodeError) as error:
        raise _damaged(prefix, error) from None
    sound = {
        name: key for name, key in keys.items() if _is_numeric(dtypes[key])
    }
    named = {name: tuple(shapes[key]) for name, key in sound.items()}
    check_size(named, file_bytes, prefix)

    def read(name: str):
        try:
            return reader.get_tensor(sound[name])
        # IndexError is what the reader makes of "out of range": a file cut
        # short.
        except _DAMAGES as error:
            raise _damaged(prefix, error) from None

    return TensorFile(named, read, prefix)


def _is_numeric(dtype: tf.DType) -> bool:
    return dtype.is_floating or dtype.is_integer or dtype.is_bool


def _check_index(prefix: str) -> int:
    """Checks an index before TensorFlow reads it.

    TensorFlow ends the process where a shape is negative, has too many
    dimensions or too many elements, or a type does not exist; and allocates
    what a shape claims before it looks for the data.

    Returns:
      The size of the checkpoint's data in bytes.

    Raises:
      ValueError: the index is damaged, or claims what the data do not hold.
    """
    index_file = f"{prefix}.index"
    os.stat(index_file)
    content = memoryview(read_bytes(index_file, limit=_MAX_INDEX))
    if len(content) < _FOOTER:
        raise ValueError("the index is cut short")
    _, place = _handle(content, len(content) - _FOOTER)
    index, _ = _handle(content, place)
    header = tensor_bundle_pb2.BundleHeaderProto()
    sizes: dict[str, int] = {}  # of the files with data
    for _, handle in _entries(content, index):
        block, _ = _handle(memoryview(handle), 0)
        for key, value in _entries(content, block):
            if not key:
                header.ParseFromString(value)
                continue
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
            shard = f"{entry.shard_id:05}-of-{header.num_shards:05}"
            path = f"{prefix}.data-{shard}"
            if path not in sizes:
                check_regular(path)
                sizes[path] = os.path.getsize(path)
            problem = _problem_of_entry(entry, sizes[path])
            if key == _OBJECT_GRAPH.encode() and not problem:
                problem = _problem_of_text(path, entry)
            if problem:
                name = key.decode(errors="replace")[:120]
                raise ValueError(f"{name} {problem}")
    return sum(sizes.values())


def _problem_of_entry(
    entry: tensor_bundle_pb2.BundleEntryProto, data_bytes: int
) -> str:
    """Returns why a tensor of the index is not to be read, or ""."""
    shape = [dim.size for dim in entry.shape.dim]
    try:
        dtype = tf.as_dtype(entry.dtype)
    except TypeError:
        return f"has the unknown type {entry.dtype}"
    if len(shape) > _MAX_RANK or any(n < 0 for n in shape):
        return f"has the shape {shape[:_MAX_RANK]}"
    elements = math.prod(max(1, n) for n in shape)
    if elements >= 1 << 60:
        return f"has the shape {shape}"
    end = entry.offset + entry.size
    if entry.offset < 0 or entry.size < 0 or end > data_bytes:
        return f"ends at byte {end:,} of {data_bytes:,}"
    # One that was saved in slices has its data under their names.
    needed = dtype.size * math.prod(shape) if _is_numeric(dtype) else 0
    if needed > (data_bytes if entry.slices else entry.size):
        return f"of shape {shape} does not fit into {entry.size:,} bytes"
    return ""


def _problem_of_text(
    path: str, entry: tensor_bundle_pb2.BundleEntryProto
) -> str:
    """Returns why a text, which begins with its length, is no such, or ""."""
    with open(path, "rb") as file:
        file.seek(entry.offset)
        length, _ = varint(memoryview(file.read(min(10, entry.size))), 0)
    is_one = math.prod(dim.size for dim in entry.shape.dim) == 1
    return "" if is_one and length <= entry.size else "is no text"


def _handle(content: memoryview, place: int) -> tuple[tuple[int, int], int]:
    """Returns the offset and size of a block, and the place after them."""
    offset, place = varint(content, place)
    size, place = varint(content, place)
    return (offset, size), place


def _entries(
    content: memoryview, handle: tuple[int, int]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block of LevelDB's table format."""
    offset, size = handle
    # A byte for the compression and four for the checksum follow.
    if size < 4 or offset + size + 5 > len(content):
        raise ValueError("a block is cut short")
    if content[offset + size]:
        raise ValueError("the index is compressed")
    block = content[offset : offset + size]
    restarts = int.from_bytes(block[-4:], "little")
    end, place, key = size - 4 * (restarts + 1), 0, b""
    while place < end:
        shared, place = varint(block, place)
        rest, place = varint(block, place)
        length, place = varint(block, place)
        if shared > len(key) or place + rest + length > end:
            raise ValueError("an entry is cut short")
        key = key[:shared] + bytes(block[place : place + rest])
        place += rest
        yield key, bytes(block[place : place + length])
        place += length


def _keys_by_variable_name(
    serialized: bytes, keys: set[str], prefix: str
) -> dict[str, str]:
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        serialized
    )
    named = {}
    slots = set()
    for node in graph.nodes:
        for slot in node.slot_variables:
            slots.add(slot.slot_variable_node_id)
    for number, node in enumerate(graph.nodes):
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if key not in keys:
                continue
            name = attribute.full_name or key.removesuffix(_SUFFIX)
            if number in slots:
                name = f"optimizer/{name}"
            if named.setdefault(name, key) != key:
                # A name that two objects share says nothing.
                name = key.removesuffix(_SUFFIX)
                named[name] = key
    rest = keys - set(named.values()) - {_OBJECT_GRAPH}
    return named | {key.removesuffix(_SUFFIX): key for key in rest}


def _damaged(prefix: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(
        f"{prefix} is not a TensorFlow checkpoint, or is damaged: {reason}"
    )
