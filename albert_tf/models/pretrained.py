"""Loading of checkpoints into models, and saving of models."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

import keras
import numpy as np

from albert_tf.errors import InputError, StorageError
from albert_tf.folders import replace_folder, temporary_folder
from albert_tf.interop import sentence_transformers
from albert_tf.interop.checkpoint import (
    Checkpoint,
    HeadSettings,
    LazyArrays,
    check_vocabulary,
)
from albert_tf.interop.huggingface import (
    CONFIG_FILE,
    OBJECTIVE_FILE,
    write_huggingface,
)
from albert_tf.interop.names import (
    COMPONENTS,
    TASK_HEADS,
    component_of,
    tensors_of,
)
from albert_tf.interop.run_folder import RECORD, RUNS_FILE, TASK_FILE
from albert_tf.models.public_names import named_weights, public_path
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import TOKENIZER_FILES

# What `new_head` never initializes.
_BODY = ("encoder", "projection")

_SAME_SETTINGS = "give the objective the settings that it was trained with"


def assign_weights(
    model,
    checkpoint: Checkpoint,
    new_head: bool,
    kept_heads: Collection[str] = (),
) -> str:
    """Loads a checkpoint into a model.

    Args:
      model: a newly initialized model.
      checkpoint: the weights to load.
      new_head: whether to keep the initial values of task heads, and of the
        pooler and pretraining heads that the checkpoint lacks.
      kept_heads: heads that `new_head` treats as pretraining heads, those of
        the objective; see `Objective.trained_heads`.

    Returns:
      A summary of the loaded, skipped and newly initialized tensors.

    Raises:
      InputError: if a tensor is missing or has another shape.
    """
    fresh, values = [], {}
    others = checkpoint.objective_arrays
    for path, variable in named_weights(model).items():
        component = component_of(path)
        if component not in COMPONENTS and path in others:
            array = others[path]
            if array.shape != tuple(variable.shape):
                raise InputError(
                    f"{checkpoint.source} has {path} of shape "
                    f"{list(array.shape)}, not {list(variable.shape)}; "
                    f"{_SAME_SETTINGS}"
                )
            variable.assign(array)
        elif new_head and component in {*TASK_HEADS}.difference(kept_heads):
            fresh.append(path)
        elif component in checkpoint.components:
            values[path] = variable
        elif new_head and component not in _BODY:
            fresh.append(path)
        else:
            raise _missing_component(model, checkpoint, component)
    if not any(component_of(path) == "encoder" for path in values):
        raise InputError(
            f"{type(model).__name__} has no AlbertEncoder as its `encoder`, "
            f"into which {checkpoint.source} could be loaded"
        )
    shapes = {
        tensor.path: tensor.shape
        for tensor in tensors_of(
            checkpoint.config, checkpoint.components, checkpoint.head.num_labels
        )
    }
    for path, variable in values.items():
        if shapes[path] != tuple(variable.shape):
            advice = "new_head=True initializes a new head"
            if component_of(path) in kept_heads:
                advice = _SAME_SETTINGS
            raise InputError(
                f"{checkpoint.source} has {path} of shape "
                f"{list(shapes[path])}, but {type(model).__name__} needs "
                f"{list(variable.shape)}; {advice}"
            )
    for path, variable in values.items():
        variable.assign(checkpoint.arrays[path])
    return _report(checkpoint, set(values), fresh)


def tokenizer_of(source, name: str | os.PathLike[str]) -> Tokenizer:
    """Returns the tokenizer of a model or checkpoint.

    Args:
      source: the model or `Checkpoint`.
      name: its path or name, for the error message.

    Raises:
      InputError: if it has no usable tokenizer, or one of more pieces than the
        model.
    """
    if source.tokenizer is None:
        problem = source.vocabulary.problem
        raise InputError(
            f"{os.fspath(name)} has no {problem and 'usable '}tokenizer"
            f"{problem and f': {problem}'}; put its spiece.model or vocab.txt "
            "beside the weights"
        )
    check_vocabulary(source.tokenizer, source.config)
    return source.tokenizer


def checkpoint_of(model) -> Checkpoint:
    """Returns a model as a checkpoint, to be written in any format."""
    arrays = merged_weights(model)
    components = frozenset(map(component_of, arrays)) & set(COMPONENTS)
    num_labels = getattr(model, "num_labels", 1)
    known = {
        tensor.path
        for tensor in tensors_of(model.config, components, num_labels)
    }
    objective = getattr(model, "objective", {})
    others = []
    if objective:
        others = [path for path in arrays if path not in known]
    for path in arrays:
        if path not in known and path not in others:
            raise InputError(
                f"{type(model).__name__}: variable {path} is not part of an "
                "ALBERT checkpoint; save the model as a .keras file"
            )
    return Checkpoint(
        config=model.config,
        components=components,
        arrays=LazyArrays(
            [path for path in arrays if path not in others], arrays.__getitem__
        ),
        objective_arrays=LazyArrays(others, arrays.__getitem__),
        objective=objective,
        head=HeadSettings(
            num_labels=num_labels,
            labels=getattr(model, "labels", None),
            dropout=model.head_dropout,
            multi_label=model.multi_label,
        ),
        vocabulary=model.vocabulary,
        source=type(model).__name__,
        format="model",
    )


def merged_weights(model) -> LazyArrays:
    """Returns the weights in float32, with LoRA updates merged into kernels."""
    variables = named_weights(model)
    lora = {}  # path of the kernel -> layer
    for layer in model._flatten_layers():
        if getattr(layer, "lora_enabled", False):
            kernel = next(v for v in layer.weights if v.name == "kernel")
            lora[public_path(model, kernel)] = layer
            for update in (layer.lora_kernel_a, layer.lora_kernel_b):
                del variables[public_path(model, update)]

    def read(path: str) -> np.ndarray:
        weight = _float32(variables[path])
        if path not in lora:
            return weight
        layer = lora[path]
        update = _float32(layer.lora_kernel_a) @ _float32(layer.lora_kernel_b)
        return weight + layer.lora_alpha / layer.lora_rank * update

    return LazyArrays(variables, read)


def _float32(variable) -> np.ndarray:
    return np.asarray(
        keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
    )


def write_pretrained(
    checkpoint: Checkpoint,
    folder: str | os.PathLike[str],
    files: Mapping[str, str | bytes] | None = None,
) -> None:
    """Writes a model to a folder in one step, keeping unrelated files.

    Args:
      checkpoint: the model.
      folder: the folder; it may exist.
      files: additional files, path in the folder -> content, text or bytes.

    Raises:
      InputError: if the folder is that of a run or several runs, or cannot be
        written to.
      StorageError: if the disk is full.
    """
    for name in (RECORD, RUNS_FILE):
        if os.path.exists(os.path.join(folder, name)):
            raise InputError(
                f"{folder} is the folder of a run or of several (it has a "
                f"{name}), which would not be opened as this model; save it to "
                "another folder"
            )
    try:
        with temporary_folder(folder) as new:
            write_huggingface(checkpoint, new)
            for name, content in (files or {}).items():
                (new / name).parent.mkdir(exist_ok=True)
                if isinstance(content, str):
                    content = content.encode()
                (new / name).write_bytes(content)
            replace_folder(
                new,
                folder,
                obsolete=_obsolete_files(folder, os.listdir(new)),
                marker=CONFIG_FILE,
            )
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror or error}"
        ) from None


def _obsolete_files(
    folder: str | os.PathLike[str], new: Collection[str]
) -> list[str]:
    """Returns the names of an earlier model's files to remove from a folder.

    They say how that model is used, which need not be true of the new one. Its
    tokenizer stays if the new model has none.
    """
    if not os.path.exists(os.path.join(folder, CONFIG_FILE)):
        return []  # It has no earlier model.
    obsolete = {OBJECTIVE_FILE, TASK_FILE}
    if not TOKENIZER_FILES.isdisjoint(new):
        obsolete |= TOKENIZER_FILES
    return [
        name
        for name in {*os.listdir(folder)}.difference(new)
        if name in obsolete or sentence_transformers.NAMES.fullmatch(name)
    ]


def _missing_component(
    model, checkpoint: Checkpoint, component: str
) -> InputError:
    heads = ", ".join(checkpoint.heads) or "no head"
    advice = "new_head=True initializes a new one"
    if component in _BODY:
        advice = "config_overrides=... must fit the checkpoint"
    elif component in ("sop_head", "pooler") and hasattr(model, "sop_head"):
        advice += ", sop_head=False omits it"
    elif hasattr(model, "num_labels"):
        advice += ", as does num_labels=..."
    return InputError(
        f"{checkpoint.source} ({checkpoint.format}) has {heads}, but lacks the "
        f"{component} of an {type(model).__name__}; {advice}"
    )


def _report(checkpoint: Checkpoint, loaded: set[str], fresh: list[str]) -> str:
    lines = [checkpoint.report()]
    unused = sorted(map(component_of, set(checkpoint.arrays) - loaded))
    if unused:
        names = ", ".join(dict.fromkeys(unused))
        lines.append(f"skipped {len(unused)} (unused by this model): {names}")
    if fresh:
        lines.append(f"newly initialized: {', '.join(sorted(fresh))}")
    return "\n".join(lines)
