"""TensorFlow checkpoints, by variable names or object paths."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import (
    tensor_bundle_pb2,
    trackable_object_graph_pb2,
)

from albert_tf.errors import InputError
from albert_tf.input_files import check_regular, read_bytes
from albert_tf.interop.file_types import TensorFile, check_size, check_tf_path
from albert_tf.wire_format import varint

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What `tf.train.Checkpoint` appends to the path of an object.
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_FOOTER = 48  # bytes
_MAX_INDEX = 16 << 20
_MAX_RANK = 32
_DAMAGES = (tf.errors.OpError, ValueError, IndexError)


def open_tf_checkpoint(
    prefix: str | os.PathLike[str], *, by_object: bool = False
) -> TensorFile:
    """Opens a TF1 or TF2 checkpoint; arrays are read on access.

    Args:
      prefix: the checkpoint's path without ".index".
      by_object: whether to name the tensors of a TF2 checkpoint by object path.
        Otherwise they are named after their variables, or by object path if the
        variable's name was not recorded.

    Raises:
      InputError: if it cannot be read, or TensorFlow takes its path for a
        pattern.
    """
    prefix = os.fspath(prefix)
    check_tf_path(prefix)
    try:
        file_bytes = _check_index(prefix)
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
        keys = {name: name for name in shapes}
        if by_object:
            keys = {name.removesuffix(SUFFIX): name for name in shapes}
            keys.pop(_OBJECT_GRAPH, None)
        elif _OBJECT_GRAPH in shapes:
            graph = reader.get_tensor(_OBJECT_GRAPH)
            keys = _keys_by_variable_name(graph, set(shapes))
    except InputError:
        raise
    except (*_DAMAGES, OSError, message.DecodeError) as error:
        raise _damaged(prefix, error) from None
    keys = {k: key for k, key in keys.items() if _is_numeric(dtypes[key])}
    named_shapes = {name: tuple(shapes[key]) for name, key in keys.items()}
    check_size(named_shapes, file_bytes, prefix)

    def read(name: str):
        try:
            return reader.get_tensor(keys[name])
        # For a truncated file, the reader raises IndexError.
        except _DAMAGES as error:
            raise _damaged(prefix, error) from None

    return TensorFile(named_shapes, read, prefix)


def _is_numeric(dtype: tf.DType) -> bool:
    return dtype.is_floating or dtype.is_integer or dtype.is_bool


def _check_index(prefix: str) -> int:
    """Validates an index before TensorFlow reads it; returns the bytes of data.

    TensorFlow aborts the process if a shape is negative or too large, or if a
    type does not exist, and allocates a tensor before it looks for its data. An
    index that is damaged, or does not match the data files, is a `ValueError`.
    """
    index_file = f"{prefix}.index"
    os.stat(index_file)
    content = memoryview(read_bytes(index_file, limit=_MAX_INDEX))
    if len(content) < _FOOTER:
        raise ValueError("the index is truncated")
    _, position = _block_handle(content, len(content) - _FOOTER)
    index, _ = _block_handle(content, position)
    header = None
    sizes: dict[str, int] = {}  # of the data files
    for _, handle in _block_entries(content, index):
        block, _ = _block_handle(memoryview(handle), 0)
        for key, value in _block_entries(content, block):
            if not key and header is None:
                header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
                continue
            if not key or header is None:  # TensorFlow takes the first entry.
                raise ValueError("it does not begin with its only header")
            entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
            shard = f"{entry.shard_id:05}-of-{header.num_shards:05}"
            path = f"{prefix}.data-{shard}"
            if path not in sizes:
                check_regular(path)
                sizes[path] = os.path.getsize(path)
            problem = _entry_problem(entry, sizes[path])
            if key == _OBJECT_GRAPH.encode() and not problem:
                problem = _string_problem(path, entry)
            if problem:
                name = key.decode(errors="replace")[:120]
                raise ValueError(f"{name} {problem}")
    return sum(sizes.values())


def _entry_problem(
    entry: tensor_bundle_pb2.BundleEntryProto, data_bytes: int
) -> str:
    """Returns why a tensor of the index must not be read, or ""."""
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
    # A tensor saved in slices has its data under the slices' names.
    needed = dtype.size * math.prod(shape) if _is_numeric(dtype) else 0
    if needed > (data_bytes if entry.slices else entry.size):
        return f"of shape {shape} does not fit into {entry.size:,} bytes"
    return ""


def _string_problem(
    path: str, entry: tensor_bundle_pb2.BundleEntryProto
) -> str:
    """Returns why an entry is not a string, which starts with its length."""
    with open(path, "rb") as file:
        file.seek(entry.offset)
        length, _ = varint(memoryview(file.read(min(10, entry.size))), 0)
    is_one = math.prod(dim.size for dim in entry.shape.dim) == 1
    return "" if is_one and length <= entry.size else "is not a string"


def _block_handle(
    content: memoryview, position: int
) -> tuple[tuple[int, int], int]:
    """Decodes a block's offset and size; also returns the next position."""
    offset, position = varint(content, position)
    size, position = varint(content, position)
    return (offset, size), position


def _block_entries(
    content: memoryview, handle: tuple[int, int]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block in LevelDB's table format."""
    offset, size = handle
    # A byte for the compression and four for the checksum follow.
    if size < 4 or offset + size + 5 > len(content):
        raise ValueError("a block is truncated")
    if content[offset + size]:
        raise ValueError("the index is compressed")
    block = content[offset : offset + size]
    count = int.from_bytes(block[-4:], "little")
    end, position, key = size - 4 * (count + 1), 0, b""
    if not count or end < 0:
        raise ValueError("a block is truncated")
    restarts = np.frombuffer(block[end:-4], "<u4").tolist()
    # Readers begin at restarts, of which the first is the first entry.
    starts = {end} if not end else set()
    while position < end:
        start = position
        shared, position = varint(block, position)
        if not shared:
            starts.add(start)
        rest, position = varint(block, position)
        length, position = varint(block, position)
        if shared > len(key) or position + rest + length > end:
            raise ValueError("an entry is truncated")
        key = key[:shared] + bytes(block[position : position + rest])
        position += rest
        yield key, bytes(block[position : position + length])
        position += length
    if restarts[0] or not starts.issuperset(restarts):
        raise ValueError("a block begins inside an entry")


def _keys_by_variable_name(serialized: bytes, keys: set[str]) -> dict[str, str]:
    """Maps variable names to checkpoint keys by the object graph."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
        serialized
    )
    named = {}
    slots = {
        slot.slot_variable_node_id
        for node in graph.nodes
        for slot in node.slot_variables
    }
    for number, node in enumerate(graph.nodes):
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if key not in keys:
                continue
            name = attribute.full_name or key.removesuffix(SUFFIX)
            if number in slots:
                name = f"optimizer/{name}"
            if named.setdefault(name, key) != key:
                # The name is ambiguous.
                name = key.removesuffix(SUFFIX)
                named[name] = key
    rest = keys - set(named.values()) - {_OBJECT_GRAPH}
    return named | {key.removesuffix(SUFFIX): key for key in rest}


def _damaged(prefix: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(
        f"{prefix} is not a TensorFlow checkpoint, or is damaged: {reason}"
    )
