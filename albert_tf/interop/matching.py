"""Matching of a checkpoint's tensors with those of its architecture.

Missing, misshapen and unexpected tensors are errors. Tensors that are not
weights are skipped, with a reason.
"""

from __future__ import annotations

import logging
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
    component_of,
    tensors_of,
)

_logger = logging.getLogger(__name__)

# Heads whose tensors have the same names in some systems; the config, or the
# requested model, determines which head it is.
_AMBIGUOUS_HEADS = ("classifier_head", "choice_head", "token_head")

# System -> pattern of tensors that are not weights -> what they are.
_SKIPPED = {
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
        r"model/.*": "weights whose averages are loaded",
        r"step|seed|skipped_batches|time|(.*/)?save_counter": "step counter",
        r"Variable.*": "tokenizer setting",
    },
    "model_garden": {
        r"(.*/)?(save_counter|global_step|iter|iteration)": "step counter",
        r"(.*/)?(Adam|LAMB|AdamWeightDecay|optimizer|current_learning_rate|"
        r"learning_rate|decay|beta_1|beta_2)(/.*)?": "optimizer state",
        r"do_lower_case|(.*/)?_?vocab_file": "tokenizer setting",
    },
}

# Head with tied tensors.
_TIED = "mlm_head"
# System -> name of a tied copy -> name of its original. A file may have either
# of them, or both.
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
    objective_heads: bool = False,
) -> Checkpoint:
    """Matches a file's tensors with the variables of an architecture.

    Args:
      system: the system that named them; one of `interop.names.FORMATS`, or
        `OURS`.
      file: the tensors.
      config: the architecture according to the checkpoint's config.
      head: the task head, if the tensors' names are ambiguous.
      objective_heads: whether tensors of unknown components are heads of a
        pretraining objective. Otherwise they are unexpected.

    Returns:
      A checkpoint without a tokenizer. Its config's `project_equal_sizes` is
      inferred from the tensors. A dtype other than float is an error when an
      array is read.
    """
    names = canonical_names(system, file.shapes, file.source)
    skipped = _pop_skipped(system, names)
    tie_problem = _pop_tied_copies(system, names, skipped, file)
    config = _detect_projection(system, names, skipped, file, config)
    components, num_labels = _find_components(system, names, file, config, head)
    found: dict[str, tuple[Tensor, str]] = {}  # path -> tensor, name in file
    problems = []
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
        found[tensor.path] = tensor, original
    others = {}
    if objective_heads:
        others = {
            ours: original
            for ours, original in names.items()
            if component_of(ours) not in COMPONENTS
        }
    problems += [
        f"unexpected tensor {name}"
        for ours, name in names.items()
        if ours not in others
    ]
    if problems:
        shown = "; ".join(problems[:6])
        more = f"; and {len(problems) - 6} more" if problems[6:] else ""
        raise InputError(
            f"{file.source} does not fit its config ({_sizes(config)}): "
            f"{shown}{more}"
        )

    def read(path: str) -> np.ndarray:
        tensor, original = found[path]
        if tie_problem and tensor.component == _TIED:
            raise InputError(tie_problem)
        array = np.asarray(file.read(original))
        # NumPy does not know that bfloat16 is a floating-point type.
        is_float = np.issubdtype(array.dtype, np.floating)
        if not is_float and array.dtype.name != "bfloat16":
            raise InputError(
                f"{file.source}: {original} has dtype {array.dtype}, not float"
            )
        transform = tensor.names[system].transform
        array = transform.to_ours(array, tensor.shape)
        # Large numbers of float64 become infinite, which is an error below.
        with np.errstate(over="ignore"):
            single = array.astype(np.float32, copy=False)
        if not np.isfinite(single).all():
            if np.isfinite(array.astype(np.float64, copy=False)).all():
                raise InputError(
                    f"{file.source}: {original} has values that are too large "
                    "for float32"
                )
            _logger.warning(
                "%s: %s has values that are NaN or infinite",
                file.source,
                original,
            )
        return single

    return Checkpoint(
        config=config,
        components=components,
        arrays=LazyArrays(found, read),
        objective_arrays=LazyArrays(
            others, lambda path: np.asarray(file.read(others[path]), np.float32)
        ),
        head=HeadSettings(num_labels),
        source=file.source,
        skipped=skipped,
    )


def _pop_skipped(system: str, names: dict[str, str]) -> dict[str, str]:
    """Removes tensors that are not weights: name -> reason."""
    skipped = {}
    for pattern, reason in _SKIPPED[system].items():
        for name in [n for n in names if re.fullmatch(pattern, n)]:
            skipped[names.pop(name)] = reason
    return skipped


def _pop_tied_copies(system, names, skipped, file: TensorFile) -> str:
    """Moves tied copies from `names` to `skipped`.

    Returns an error message if a copy differs from its original, or "". It
    concerns the MLM head only: the encoder can be loaded.
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
            # Early releases of transformers had a second, untrained bias.
            skipped[names.pop(copy)] = "zeros; another bias is used"
        else:
            problem = (
                f"{file.source}: {names[copy]} differs from "
                f"{names[original]}, to which ALBERT ties it"
            )
            skipped[names.pop(copy)] = "differs from the tensor it is tied to"
    return problem


def _detect_projection(system, names, skipped, file, config) -> AlbertConfig:
    """Sets `project_equal_sizes` of the config according to the tensors.

    An identity projection, of systems that always project, is skipped.
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
    candidates = [name for name in _AMBIGUOUS_HEADS if name in components]
    labelled = "pair_head" if "pair_head" in components else None
    if candidates:
        labelled = _choose_head(system, names, file, config, candidates, head)
        components -= set(candidates) - {labelled}
    if labelled:
        weights = next(tensors_of(config, {labelled})).names[system]
        shape = file.shapes.get(names.get(weights.name, ""), (1,))
        if labelled != "choice_head" and shape:
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


def _sizes(config: AlbertConfig) -> str:
    fields = (
        "vocab_size embedding_size hidden_size num_hidden_layers "
        "num_hidden_groups inner_group_num intermediate_size"
    )
    values = config.to_dict()
    return ", ".join(f"{name}={values[name]}" for name in fields.split())
