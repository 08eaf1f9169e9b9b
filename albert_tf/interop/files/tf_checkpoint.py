"""TensorFlow checkpoints, by variable names or object paths."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.errors import InputError
from albert_tf.interop.files.file_types import TensorFile

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


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
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise _damaged(prefix, error) from None
    sound = {
        name: key for name, key in keys.items() if dtypes[key] != tf.string
    }

    def read(name: str):
        try:
            return reader.get_tensor(sound[name])
        # IndexError is what the reader makes of "out of range": a file cut
        # short.
        except (tf.errors.OpError, ValueError, IndexError) as error:
            raise _damaged(prefix, error) from None

    return TensorFile(
        {name: tuple(shapes[key]) for name, key in sound.items()}, read, prefix
    )


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
