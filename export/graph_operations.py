"""The operations of a SavedModel, listed without running it."""

from __future__ import annotations

import os
import pathlib
import re

from albert_tf.errors import InputError
from albert_tf.interop.tf_graph import read_saved_model

# Operations that read or write files, run Python, or talk to other processes.
_UNSAFE = re.compile(
    "File|Reader|Dataset|Iterator|PyFunc|Save|Restore|Checkpoint|Print|Summary"
    "|Debug|Proto|Rpc|Remote|Send|Recv|Collective|Snapshot|LMDB|Abort"
)
# The functions that read and write the variables, and what they may do.
_SAVER = re.compile(r"__inference__traced_(save|restore)_\d+")
_OF_SAVER = {"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename"}
# Other forms of a SavedModel's graph, which TensorFlow loads, too.
_OTHER_FORMS = ("saved_model.cpb", "saved_model.pbtxt")


def check_operations(folder: str | os.PathLike[str]) -> None:
    """Refuses a SavedModel that does more than to compute.

    Args:
      folder: the SavedModel.

    Raises:
      InputError: if the graph or one of its functions has an operation on
        files, of Python or of a network, or the graph cannot be read.
    """
    folder = pathlib.Path(folder)
    for name in _OTHER_FORMS:
        if (folder / name).exists():
            raise InputError(
                f"{folder} has a {name}, which exports of albert_tf do not "
                "have; it is not loaded"
            )
    if not (folder / "saved_model.pb").exists():
        return  # Nothing that TensorFlow would load.
    unsafe = set()
    for graph in read_saved_model(folder):
        for function, operations, calls_saver in graph.operations(_SAVER):
            found = {x for x in operations if _UNSAFE.search(x)}
            if _SAVER.fullmatch(function):
                found -= _OF_SAVER
            elif function and calls_saver:
                found.add(f"a call of the saver in {function}")
            unsafe |= found
    if unsafe:
        raise InputError(
            f"{folder}: the graph has operations on files, of Python or of a "
            f"network ({', '.join(sorted(unsafe))[:200]}), which exports of "
            "albert_tf do not have; it is not loaded"
        )
