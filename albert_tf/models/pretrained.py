"""From a checkpoint to a model, and back to a folder."""

from __future__ import annotations

import os
import pathlib
import uuid

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Checkpoint, HeadSettings, LazyArrays
from albert_tf.interop.formats.huggingface import write_huggingface
from albert_tf.interop.names import PARTS, part_of, tensors_of

# Task heads start fresh if that is asked for; the pretraining heads and the
# pooler only where the checkpoint lacks them.
_TASK_HEADS = PARTS[PARTS.index("classifier_head") :]


def assign_weights(model, checkpoint: Checkpoint, new_head: bool) -> str:
    """Sets the weights of a new model.

    Args:
      model: as it was made; what is to start fresh stays as it is.
      checkpoint: what to read.
      new_head: whether parts that the checkpoint lacks may start fresh, and
        whether the task head does.

    Returns:
      A report of what was read, left and made, in a few lines.

    Raises:
      InputError: a tensor is missing or has another shape.
    """
    fresh, values = [], {}
    for variable in model.weights:
        part = part_of(variable.path)
        if new_head and part in _TASK_HEADS:
            fresh.append(variable.path)
        elif part in checkpoint.parts:
            values[variable.path] = variable
        elif new_head and part != "encoder":
            fresh.append(variable.path)
        else:
            _complain_of_lack(model, checkpoint, part)
    shapes = {
        tensor.path: tensor.shape
        for tensor in tensors_of(
            checkpoint.config, checkpoint.parts, checkpoint.head.num_labels
        )
    }
    for path, variable in values.items():
        if shapes[path] != tuple(variable.shape):
            raise InputError(
                f"{checkpoint.source} has {path} of shape "
                f"{list(shapes[path])}, but {type(model).__name__} needs "
                f"{list(variable.shape)}; new_head=True makes a new head"
            )
    for path, variable in values.items():
        variable.assign(checkpoint.arrays[path])
    return _report(checkpoint, set(values), fresh)


def checkpoint_of(model) -> Checkpoint:
    """Returns what a model holds, to be written in any format."""
    variables = {variable.path: variable for variable in model.weights}
    parts = frozenset(map(part_of, variables))

    def reader(variable):
        return lambda: np.asarray(
            keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
        )

    return Checkpoint(
        config=model.config,
        parts=parts,
        arrays=LazyArrays({p: reader(v) for p, v in variables.items()}),
        head=HeadSettings(
            num_labels=getattr(model, "num_labels", 1),
            labels=getattr(model, "labels", None),
            dropout=model.head_dropout,
        ),
        vocabulary=model.vocabulary,
        source=type(model).__name__,
        format="model",
    )


def write_pretrained(
    checkpoint: Checkpoint, folder: str | os.PathLike[str]
) -> None:
    """Writes a model's folder; files of other names in it stay.

    Each file is replaced as a whole, the config last.

    Raises:
      InputError: the folder cannot be made or written to.
    """
    folder = pathlib.Path(folder)
    new = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.tmp"
    try:
        new.mkdir(parents=True)
        try:
            write_huggingface(checkpoint, new)
            folder.mkdir(exist_ok=True)
            names = sorted(p.name for p in new.iterdir())
            for name in sorted(names, key=lambda name: name == "config.json"):
                os.replace(new / name, folder / name)
        finally:
            for path in new.iterdir():
                path.unlink()
            new.rmdir()
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror or error}"
        ) from None


def _complain_of_lack(model, checkpoint: Checkpoint, part: str) -> None:
    held = ", ".join(checkpoint.heads) or "no head"
    advice = "new_head=True makes a new one"
    if part in ("sop_head", "pooler") and hasattr(model, "sop_head"):
        advice += ", sop_head=False does without"
    elif hasattr(model, "num_labels"):
        advice += ", as does num_labels=..."
    raise InputError(
        f"{checkpoint.source} ({checkpoint.format}) holds {held} and lacks the "
        f"{part} of an {type(model).__name__}; {advice}"
    )


def _report(checkpoint: Checkpoint, read: set[str], fresh: list[str]) -> str:
    lines = [checkpoint.report()]
    unused = sorted({part_of(path) for path in set(checkpoint.arrays) - read})
    if unused:
        lines.append(f"not part of this model: {', '.join(unused)}")
    if fresh:
        lines.append(f"new: {', '.join(sorted(fresh))}")
    return "\n".join(lines)
