"""Accounts for every tensor of a checkpoint: read, left for a reason, or error.

A checkpoint never becomes another model in silence: what the architecture needs
must be there in its shape, and what is there must have a place or a reason.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.canonical_names import canonical_names
from albert_tf.interop.checkpoint import LazyArrays
from albert_tf.interop.files.tensor_file import TensorFile
from albert_tf.interop.names import (
    ALWAYS_PROJECTS,
    PARTS,
    Tensor,
    tensors_of,
)

# Heads whose tensors have one name in some system; the checkpoint's own words,
# or the model that is asked for, tell which it is.
_ONE_NAME = ("classifier_head", "choice_head", "token_head")

# name of a tensor that is no weight -> why it is left.
_NO_WEIGHTS = {
    "google": {
        r".*/(adam|lamb)_[mv]|.*/Adam(_1)?|beta[12]_power": "optimizer state",
        r"(.*/)?global_step": "step counter",
        r"(current_)?loss_scale|good_steps|bad_steps": "loss scaling",
    },
    "huggingface": {
        r"albert\.embeddings\.(position_ids|token_type_ids)": "constant",
    },
    "keras_hub": {
        r"(task/)?optimizer/.*": "optimizer state",
        r".*/seed_generator.*": "dropout seed",
    },
    "albert_tf": {
        r"optimizer/.*": "optimizer state",
        r"loss_scale/.*": "loss scaling",
        r"model/.*": "last weights, beside their averages, which are read",
        r"step|seed|rollbacks|(.*/)?save_counter": "step counter",
        r"Variable.*": "tokenizer setting",
    },
    "model_garden": {
        r"(.*/)?(save_counter|global_step|iter|iteration)": "step counter",
        r"(.*/)?(Adam|LAMB|AdamWeightDecay|optimizer|current_learning_rate|"
        r"learning_rate|decay|beta_1|beta_2)(/.*)?": "optimizer state",
        r"do_lower_case|(.*/)?_?vocab_file": "tokenizer setting",
    },
}

_TIED_PART = "mlm_head"
# Hugging Face's ties: copies of another tensor, or, in files that keep only one
# of the two, that tensor itself.
_TIES = {
    "huggingface": {
        "predictions.decoder.weight": (
            "albert.embeddings.word_embeddings.weight"
        ),
        "predictions.decoder.bias": "predictions.bias",
    }
}


@dataclasses.dataclass(frozen=True)
class Account:
    """What `account_for` found.

    Attributes:
      config: the architecture; `project_equal_sizes` says what was found.
      parts: the parts that are there.
      num_labels: classes of a classifier's or token classifier's head.
      arrays: our path -> float32 array in our shape, lazily.
      left: tensors that are no weights -> why they were left.
    """

    config: AlbertConfig
    parts: frozenset[str]
    num_labels: int
    arrays: LazyArrays
    left: dict[str, str]


def account_for(
    system: str,
    file: TensorFile,
    config: AlbertConfig,
    *,
    head: str | None = None,
) -> Account:
    """Finds our tensors among those of a file.

    Args:
      system: whose names they are; one of `interop.names.FORMATS`.
      file: the tensors.
      config: the architecture that the checkpoint describes.
      head: the head it has, where its names alone do not tell.

    Raises:
      InputError: a tensor is missing, unknown, of another shape, no float, or
        belongs to a head that the names do not tell apart.
    """
    names = canonical_names(system, file.shapes, file.source)
    left = _take_no_weights(system, names)
    untied = _take_ties(system, names, left, file)
    config = _with_projection(system, names, left, file, config)
    parts, num_labels = _find_parts(system, names, file, config, head)
    readers, problems = {}, []
    for tensor in tensors_of(config, parts, num_labels):
        theirs = tensor.names[system]
        original = names.pop(theirs.name, None)
        if original is None:
            problems.append(f"lacks {theirs.name}")
            continue
        expected = theirs.transform.shape(tensor.shape)
        shape = tuple(file.shapes[original])
        if shape != expected:
            problems.append(
                f"has {original} of shape {list(shape)}, expected "
                f"{list(expected)}"
            )
        readers[tensor.path] = _reader(file, original, theirs, tensor)
        if tensor.part == _TIED_PART and untied:
            readers[tensor.path] = _refusal(untied)
    problems += [f"has {name}, which has no place" for name in names.values()]
    if problems:
        shown = "; ".join(problems[:6])
        more = f"; and {len(problems) - 6} more" if problems[6:] else ""
        raise InputError(
            f"{file.source} does not fit its config ({_sizes(config)}): "
            f"{shown}{more}"
        )
    return Account(config, parts, num_labels, LazyArrays(readers), left)


def _take_no_weights(system: str, names: dict[str, str]) -> dict[str, str]:
    """Moves what is no weight out of `names`; returns name -> reason."""
    left = {}
    for pattern, reason in _NO_WEIGHTS[system].items():
        for name in [n for n in names if re.fullmatch(pattern, n)]:
            left[names.pop(name)] = reason
    return left


def _take_ties(system, names, left, file: TensorFile) -> str:
    """Moves copies out of `names`; says what is wrong with one, or "".

    What differs only concerns who reads the MLM head: an encoder opens.
    """
    problem = ""
    for copy, original in _TIES.get(system, {}).items():
        if copy not in names:
            continue
        if original not in names:
            names[original] = names.pop(copy)
            continue
        value = file.read(names[copy])
        if np.array_equal(value, file.read(names[original])):
            left[names.pop(copy)] = "tied copy"
        elif value.ndim == 1 and not np.any(value):
            # The first releases of transformers added two biases, and kept one.
            left[names.pop(copy)] = "zeros, beside the bias that is used"
        else:
            problem = (
                f"{file.source}: {names[copy]} differs from "
                f"{names[original]}, to which ALBERT ties it"
            )
            left[names.pop(copy)] = "differs from what ALBERT ties it to"
    return problem


def _with_projection(system, names, left, file, config) -> AlbertConfig:
    """Says in the config whether equal sizes are projected.

    Systems that always project have an identity where the model has none.
    """
    if config.embedding_size != config.hidden_size:
        return config
    config = config.replace(project_equal_sizes=True)
    kernel, bias = (
        tensor.names[system].name
        for tensor in tensors_of(config, {"projection"})
    )
    if kernel not in names or bias not in names:
        return config.replace(project_equal_sizes=False)
    size = config.hidden_size
    if (
        system in ALWAYS_PROJECTS
        and tuple(file.shapes[names[kernel]]) == (size, size)
        and np.array_equal(file.read(names[kernel]), np.eye(size))
        and not np.any(file.read(names[bias]))
    ):
        for name in (kernel, bias):
            left[names.pop(name)] = "identity, which the model does without"
        return config.replace(project_equal_sizes=False)
    return config


def _find_parts(
    system: str,
    names: Mapping[str, str],
    file: TensorFile,
    config: AlbertConfig,
    head: str | None,
) -> tuple[frozenset[str], int]:
    """Returns the parts of which there is any tensor, and the label count."""
    parts, num_labels = {"encoder"}, 1
    if config.has_embedding_projection:
        parts.add("projection")
    for part in PARTS[PARTS.index("pooler") :]:
        theirs = [
            t.names[system]
            for t in tensors_of(config, {part})
            if system in t.names
        ]
        if any(name.name in names for name in theirs):
            parts.add(part)
    candidates = [part for part in _ONE_NAME if part in parts]
    if candidates:
        part = _head_of_one_name(system, names, file, config, candidates, head)
        parts -= set(candidates) - {part}
        weights = next(tensors_of(config, {part})).names[system]
        shape = file.shapes.get(names.get(weights.name, ""), (1,))
        if part != "choice_head" and shape:
            axis = 0 if weights.transform.kind == "transpose" else -1
            num_labels = shape[axis]
    return frozenset(parts), num_labels


def _head_of_one_name(system, names, file, config, candidates, head) -> str:
    if head in candidates:
        return head
    weights = next(tensors_of(config, {candidates[0]})).names[system]
    shape = file.shapes.get(names.get(weights.name, ""), (1,))
    if shape[:1] > (1,):  # Multiple choice has one row.
        candidates = [part for part in candidates if part != "choice_head"]
    if len(candidates) == 1 or head is not None:
        return candidates[0]
    raise InputError(
        f"{file.source}: {weights.name} may belong to a "
        f"{' or a '.join(candidates)}; say which with head=..., or on the "
        "command line --head=..."
    )


def _refusal(problem: str):
    def read() -> np.ndarray:
        raise InputError(problem)

    return read


def _reader(file, original, theirs, tensor: Tensor):
    def read() -> np.ndarray:
        array = np.asarray(file.read(original))
        # NumPy does not count bfloat16 among its floats.
        is_float = np.issubdtype(array.dtype, np.floating)
        if not is_float and array.dtype.name != "bfloat16":
            raise InputError(
                f"{file.source}: {original} has dtype {array.dtype}, not float"
            )
        array = theirs.transform.to_ours(array, tensor.shape)
        return array.astype(np.float32, copy=False)

    return read


def _sizes(config: AlbertConfig) -> str:
    fields = (
        "vocab_size embedding_size hidden_size num_hidden_layers "
        "num_hidden_groups inner_group_num intermediate_size"
    )
    values = config.to_dict()
    return ", ".join(f"{name}={values[name]}" for name in fields.split())
