"""Conversion of checkpoints between formats."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import shutil
from collections.abc import Callable, Collection
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import check_not_input
from albert_tf.folders import new_folder
from albert_tf.interop import (
    google,
    huggingface,
    keras_hub,
    sentence_transformers,
)
from albert_tf.interop.checkpoint import (
    Checkpoint,
    HeadSettings,
    LazyArrays,
    Vocabulary,
)
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.file_types import check_tf_path
from albert_tf.interop.names import HEADS, component_of
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import TASK_FILE
from albert_tf.interop.vocabulary_transfer import transfer_vocabulary
from albert_tf.pretrained_models import vocabulary_path
from albert_tf.settings import takes
from albert_tf.text.normalizer import CASE_SETTINGS
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

_logger = logging.getLogger(__name__)

# Format -> its writer, and the file that identifies an earlier result: the
# weights, since a training run has a config.json too. A writer takes the
# checkpoint, an existing empty folder, and optionally a function to call after
# each tensor; it raises an `InputError` for what its format does not support.
WRITERS: dict[str, tuple[Callable, str]] = {
    "huggingface": (huggingface.write_huggingface, huggingface.WEIGHTS_FILE),
    "google": (google.write_google, f"{google.CHECKPOINT}.index"),
    "keras_hub": (keras_hub.write_keras_hub, keras_hub.BACKBONE_FILE),
}

# `ConvertConfig.head` -> component.
_HEADS = {
    "classifier": "classifier_head",
    "multiple_choice": "choice_head",
    "token_classifier": "token_head",
}

_POOLED_HEADS = ("sop_head", "classifier_head", "choice_head")

_OBJECTIVE = "objective"
_POOLING = "pooling"
_DROPPABLE = ("tokenizer", "pooler", *HEADS, _OBJECTIVE, _POOLING)


@takes(ConvertConfig)
def convert(
    config: ConvertConfig, *, progress: Callable[[int, int], None] | None = None
) -> Checkpoint:
    """Converts a checkpoint to another format.

    Nothing is lost silently: a component that the format does not support is an
    error, unless it is dropped by name. The output folder appears when it is
    complete.

    Args:
      config: the checkpoint, see `open_checkpoint`, the output folder and the
        settings.
      progress: called with the number of converted tensors and their total.

    Returns:
      The source's checkpoint; its `report()` lists the tensors.

    Raises:
      InputError: if the source cannot be opened, the output exists, the format
        does not support a component of the source, or a weight is out of the
        range of the dtype.
    """
    to = config.to
    options = {}
    if config.dtype != "float32":
        if to != "huggingface":
            raise InputError(
                f"dtype={config.dtype!r}: the format {to} stores float32 only; "
                "use to=huggingface"
            )
        options["dtype"] = config.dtype
    inputs = [config.input, config.spm_model_file]
    check_not_input(config.output, [x for x in inputs if x is not None])
    for name in CASE_SETTINGS:
        if getattr(config, name) is not None and not config.spm_model_file:
            raise InputError(
                f"{name} requires spm_model_file; otherwise it is part of the "
                "model's tokenizer"
            )
    head = _HEADS[config.head] if config.head else None
    checkpoint = open_checkpoint(
        config.input,
        head=head,
        config=config.config,
        config_overrides=config.config_overrides,
        revision=config.revision,
    )
    # A run's folder stands for a folder in it, and a TensorFlow checkpoint's
    # path is that of no file.
    read = checkpoint.source
    check_not_input(config.output, [read, f"{read}.index"])
    if head is not None and head not in checkpoint.components:
        raise InputError(
            f"head: {checkpoint.source} has no {head}; it has "
            f"{', '.join(checkpoint.heads) or 'no head'}"
        )
    checkpoint = _without_objective(checkpoint, config)
    if config.spm_model_file is not None:
        checkpoint = _with_vocabulary(checkpoint, config)
    kept = _drop_components(checkpoint, {*config.drop} - {_OBJECTIVE, _POOLING})
    files = _companion_files(checkpoint, config)
    if to != "huggingface" and (lost := _unsupported(kept, to, files)):
        _logger.warning(
            "%s: the format %s has no place for %s; readers assume defaults",
            config.output,
            to,
            ", ".join(lost),
        )
    if to == "google":
        check_tf_path(config.output)  # Nothing could read it.
    write, marker = WRITERS[to]
    done = 0

    def on_tensor():
        nonlocal done
        done += 1
        if progress:
            progress(done, len(kept.arrays))

    with new_folder(config.output, config.overwrite, marker) as folder:
        if to == "huggingface":
            for name, file in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, folder / name)
        write(kept, folder, on_tensor, **options)
    return checkpoint


def _unsupported(
    checkpoint: Checkpoint, to: str, files: Collection[str]
) -> list[str]:
    """Describes what Google's and KerasHub's formats cannot store.

    Settings that have their defaults do not count. `files` are the
    `_companion_files`.
    """
    config, head, lost = checkpoint.config, checkpoint.head, []
    if config.trained_positions is not None:
        lost.append(f"trained_positions={config.trained_positions}")
    scale = config.initializer_range
    if to == "keras_hub" and scale != AlbertConfig().initializer_range:
        lost.append(f"initializer_range={scale}")
    if checkpoint.heads and head.labels:
        lost.append("the names of the labels")
    if head.multi_label:
        lost.append("that labels do not exclude each other")
    if TASK_FILE in files:
        lost.append("the task")
    if sentence_transformers.MODULES_FILE in files:
        lost.append("the pooling")
    if to != "google":
        return lost
    if checkpoint.heads and head.dropout != HeadSettings().dropout:
        lost.append(f"the dropout of the head ({head.dropout})")
    tokenizer = checkpoint.tokenizer
    if tokenizer is not None:
        tokenizer_class: Any = type(tokenizer)
        defaults = tokenizer_class(tokenizer.model_bytes).settings
        for name, value in tokenizer.settings.items():
            if value != defaults[name]:
                lost.append(f"{name}={value} of the tokenizer")
    return lost


def _companion_files(
    checkpoint: Checkpoint, config: ConvertConfig
) -> dict[str, pathlib.Path]:
    """Returns the files that say how a model is used, by their relative paths.

    They are the task of a fine-tuned model, unless its head or its tokenizer is
    dropped, and the pooling of sentence-transformers, whose token weights
    belong to the vocabulary.
    """
    folder = checkpoint.folder
    pooling: list[str] = []
    if folder is not None:
        pooling = sentence_transformers.stored_files(folder)
    if _POOLING in config.drop:
        if not pooling:
            raise InputError(
                f"drop: {checkpoint.source} has no pooling of "
                "sentence-transformers"
            )
        pooling = []
    if folder is None or "tokenizer" in config.drop:
        return {}
    weighted = sentence_transformers.has_token_weights(pooling)
    if weighted and config.to == "huggingface" and config.spm_model_file:
        raise InputError(
            f"the token weights of {checkpoint.source} (WordWeights) belong to "
            f"its vocabulary; drop the pooling with --drop={_POOLING}"
        )
    names = pooling
    if (folder / TASK_FILE).is_file() and not {*HEADS} & {*config.drop}:
        names = [*pooling, TASK_FILE]
    return {name: folder / name for name in names}


def _without_objective(
    checkpoint: Checkpoint, config: ConvertConfig
) -> Checkpoint:
    """Omits the heads of a pretraining objective if they are to be dropped.

    Other formats lack them, and they belong to one vocabulary.
    """
    heads = ", ".join(checkpoint.objective_heads)
    if _OBJECTIVE in config.drop:
        if not heads:
            raise InputError(
                f"drop: {checkpoint.source} has no heads of an objective"
            )
        return dataclasses.replace(
            checkpoint, objective_arrays={}, objective={}
        )
    if heads and (config.to != "huggingface" or config.spm_model_file):
        raise InputError(
            f"the heads of the objective of {checkpoint.source} ({heads}) can "
            "only be kept with to=huggingface and its own vocabulary; drop "
            f"them with --drop={_OBJECTIVE}"
        )
    return checkpoint


def _with_vocabulary(
    checkpoint: Checkpoint, config: ConvertConfig
) -> Checkpoint:
    """Gives a checkpoint the vocabulary of a file.

    Its case settings stay, unless others are given.
    """
    assert config.spm_model_file is not None
    settings = checkpoint.tokenizer.settings if checkpoint.tokenizer else {}
    case = {x: y for x, y in settings.items() if x in CASE_SETTINGS}
    if case.get("strip_accents", False) is None:  # WordPiece: as lower-casing
        case["strip_accents"] = case["do_lower_case"]
    for name in CASE_SETTINGS:
        if (given := getattr(config, name)) is not None:
            case[name] = given
    path = vocabulary_path(config.spm_model_file)
    tokenizer = AlbertTokenizer.from_file(path, **case)
    return transfer_vocabulary(checkpoint, tokenizer)


def _drop_components(
    checkpoint: Checkpoint, drop: Collection[str]
) -> Checkpoint:
    vocabulary = checkpoint.vocabulary
    if "tokenizer" in drop:
        vocabulary = Vocabulary()
    elif vocabulary.problem:
        raise InputError(
            f"{vocabulary.problem}; fix it, or drop it with --drop=tokenizer"
        )
    missing = checkpoint.missing_head
    if missing and missing not in drop:
        raise InputError(
            f"the config of {checkpoint.source} declares a {missing}, but the "
            f"weights have none; use --drop={missing} to convert the rest"
        )
    for name in drop:
        if name not in _DROPPABLE:
            raise InputError(
                f"drop: {name!r} must be one of {', '.join(_DROPPABLE)}"
            )
        if name not in {"tokenizer", missing, *checkpoint.components}:
            raise InputError(
                f"drop: {checkpoint.source} has no {name}; it has "
                f"{', '.join(checkpoint.heads) or 'no head'}"
            )
    if not drop:
        return checkpoint
    pooled = set(checkpoint.components) & set(_POOLED_HEADS) - set(drop)
    if "pooler" in drop and pooled:
        raise InputError(
            f"drop: the {min(pooled)} reads the pooler's output; drop both or "
            "neither"
        )
    arrays = checkpoint.arrays
    kept = [path for path in arrays if component_of(path) not in drop]
    return dataclasses.replace(
        checkpoint,
        components=checkpoint.components - set(drop),
        vocabulary=vocabulary,
        arrays=LazyArrays(kept, arrays.__getitem__),
    )
