"""Matching of a checkpoint's tensors with those of the architecture.

A checkpoint never silently becomes another model: missing, misshapen and
unexpected tensors are errors, and tensors that are not weights are skipped for
a stated reason.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.canonical_names import canonical_names
from albert_tf.interop.checkpoint import Checkpoint, HeadSettings, LazyArrays
from albert_tf.interop.file_types import TensorFile
from albert_tf.interop.names import (
    ALWAYS_PROJECTS,
    COMPONENTS,
    Tensor,
    Transform,
    tensors_of,
)

# Heads whose tensors have the same names in some system; its config, or the
# model that is asked for, tells which head it is.
_SAME_NAMES = ("classifier_head", "choice_head", "token_head")

# Pattern of tensors that are not weights -> what they are.
_NO_WEIGHTS = {
    "google": {
        r".*/(adam|lamb)_[mv]|.*/Adam(_1)?|beta[12]_power": "optimizer state",
        r"(.*/)?global_step": "step counter",
        r"(current_)?loss_scale|good_steps|bad_steps": "loss scaling",
    },
    "huggingface": {
        r"albert\.embeddings\.(position_ids|token_type_ids)": "constant"
    },
    "keras_hub": {
        r"(task/)?optimizer/.*": "optimizer state",
        r".*/seed_generator.*": "dropout seed",
    },
    "albert_tf": {
        r"optimizer/.*": "optimizer state",
        r"loss_scale/.*": "loss scaling",
        r"model/.*": "last weights; their averages are loaded",
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

_TIED = "mlm_head"
# Hugging Face's ties: copies of another tensor; in files that keep only one of
# the two, that tensor itself.
_TIES = {
    "huggingface": {
        "predictions.decoder.weight": (
            "albert.embeddings.word_embeddings.weight"
        ),
        "predictions.decoder.bias": "predictions.bias",
    }
}


def match_tensors(
    system: str,
    file: TensorFile,
    config: AlbertConfig,
    *,
    head: str | None = None,
) -> Checkpoint:
    """Returns the checkpoint that a file's tensors make up.

    Args:
      system: whose names they have; one of `interop.names.FORMATS`.
      file: the tensors.
      config: the architecture that the checkpoint describes.
      head: the head it has, where its names alone do not tell.

    Returns:
      A checkpoint without a tokenizer. The config's `project_equal_sizes` is
      what was found.

    Raises:
      InputError: a tensor is missing, unexpected, of another shape, not of a
        floating-point type, or belongs to one of several heads whose names are
        the same.
    """
    names = canonical_names(system, file.shapes, file.source)
    skipped = _take_no_weights(system, names)
    untied = _take_ties(system, names, skipped, file)
    config = _with_projection(system, names, skipped, file, config)
    components, num_labels = _find_components(system, names, file, config, head)
    readers, problems = {}, []
    for tensor in tensors_of(config, components, num_labels):
        theirs = tensor.names[system]
        original = names.pop(theirs.name, None)
        if original is None:
            problems.append(f"missing tensor {theirs.name}")
            continue
        expected = theirs.transform.shape(tensor.shape)
        shape = tuple(file.shapes[original])
        if shape != expected:
            problems.append(
                f"misshapen tensor {original}: {list(shape)}, expected "
                f"{list(expected)}"
            )
        problem = untied if tensor.component == _TIED else ""
        readers[tensor.path] = functools.partial(
            _read, file, original, tensor, theirs.transform, problem
        )
    problems += [f"unexpected tensor {name}" for name in names.values()]
    if problems:
        shown = "; ".join(problems[:6])
        more = f"; and {len(problems) - 6} more" if problems[6:] else ""
        raise InputError(
            f"{file.source} does not fit its config ({_sizes(config)}): "
            f"{shown}{more}"
        )
    return Checkpoint(
        config=config,
        components=components,
        arrays=LazyArrays(readers),
        head=HeadSettings(num_labels),
        source=file.source,
        skipped=skipped,
    )


def _take_no_weights(system: str, names: dict[str, str]) -> dict[str, str]:
    """Moves tensors that are not weights out of `names`.

    Returns:
      Name -> reason.
    """
    skipped = {}
    for pattern, reason in _NO_WEIGHTS[system].items():
        for name in [n for n in names if re.fullmatch(pattern, n)]:
            skipped[names.pop(name)] = reason
    return skipped


def _take_ties(system, names, skipped, file: TensorFile) -> str:
    """Moves tied copies out of `names`.

    Returns:
      "", or that a copy differs. This concerns models with an MLM head only:
      an encoder can be loaded.
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
            skipped[names.pop(copy)] = "tied copy"
        elif value.ndim == 1 and not np.any(value):
            # The first releases of transformers added two biases, and kept one.
            skipped[names.pop(copy)] = "zeros; another bias is used"
        else:
            problem = (
                f"{file.source}: {names[copy]} differs from "
                f"{names[original]}, to which ALBERT ties it"
            )
            skipped[names.pop(copy)] = "differs from the tensor it is tied to"
    return problem


def _with_projection(system, names, skipped, file, config) -> AlbertConfig:
    """Returns the config, with `project_equal_sizes` as the tensors say.

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
            skipped[names.pop(name)] = "identity projection"
        return config.replace(project_equal_sizes=False)
    return config


def _find_components(
    system: str,
    names: Mapping[str, str],
    file: TensorFile,
    config: AlbertConfig,
    head: str | None,
) -> tuple[frozenset[str], int]:
    components, num_labels = {"encoder"}, 1
    if config.has_embedding_projection:
        components.add("projection")
    for component in COMPONENTS[COMPONENTS.index("pooler") :]:
        theirs = [
            t.names[system]
            for t in tensors_of(config, {component})
            if system in t.names
        ]
        if any(name.name in names for name in theirs):
            components.add(component)
    candidates = [name for name in _SAME_NAMES if name in components]
    if candidates:
        head = _choose_head(system, names, file, config, candidates, head)
        components -= set(candidates) - {head}
        weights = next(tensors_of(config, {head})).names[system]
        shape = file.shapes.get(names.get(weights.name, ""), (1,))
        if head != "choice_head" and shape:
            axis = 0 if weights.transform.kind == "transpose" else -1
            num_labels = shape[axis]
    return frozenset(components), num_labels


def _choose_head(system, names, file, config, candidates, head) -> str:
    if head in candidates:
        return head
    weights = next(tensors_of(config, {candidates[0]})).names[system]
    shape = file.shapes.get(names.get(weights.name, ""), (1,))
    if shape[:1] > (1,):  # Multiple choice has one row.
        candidates = [name for name in candidates if name != "choice_head"]
    if len(candidates) == 1 or head is not None:
        return candidates[0]
    raise InputError(
        f"{file.source}: {weights.name} may belong to a "
        f"{' or a '.join(candidates)}; choose one with head=..., or "
        "--head=... on the command line"
    )


def _read(
    file: TensorFile,
    original: str,
    tensor: Tensor,
    transform: Transform,
    problem: str,
) -> np.ndarray:
    if problem:
        raise InputError(problem)
    array = np.asarray(file.read(original))
    # To NumPy, bfloat16 is not a float.
    is_float = np.issubdtype(array.dtype, np.floating)
    if not is_float and array.dtype.name != "bfloat16":
        raise InputError(
            f"{file.source}: {original} has dtype {array.dtype}, not float"
        )
    array = transform.to_ours(array, tensor.shape)
    return array.astype(np.float32, copy=False)


def _sizes(config: AlbertConfig) -> str:
    fields = (
        "vocab_size embedding_size hidden_size num_hidden_layers "
        "num_hidden_groups inner_group_num intermediate_size"
    )
    values = config.to_dict()
    return ", ".join(f"{name}={values[name]}" for name in fields.split())
