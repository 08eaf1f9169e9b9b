"""Exports of checkpoints and fine-tuned models."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.config import warn_of_untrained_positions
from albert_tf.errors import InputError
from albert_tf.export.config import IDS_KINDS, ExportConfig
from albert_tf.export.encoder import encoder_cases, export_encoder
from albert_tf.export.litert_conversion import (
    check_quantization,
    encoder_program,
)
from albert_tf.export.origin import origin_of_checkpoint, origin_of_task
from albert_tf.export.preprocessor import (
    export_preprocessor,
    preprocessor_cases,
)
from albert_tf.export.reference import Case
from albert_tf.export.runtimes import (
    export_for_runtime,
    litert_cases,
    task_calibration,
    task_program,
    text_calibration,
)
from albert_tf.export.task import export_task, task_cases
from albert_tf.export.text_encoder import (
    export_text_encoder,
    text_encoder_cases,
)
from albert_tf.files import check_not_input, split_patterns
from albert_tf.finetuning.model_folder import load_model, open_model_folder
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import fine_tuned_model
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.models.pretrainer import AlbertPretrainer

Path = str | os.PathLike[str]

_DEFAULT_LENGTH = 128


def export(
    source: Path,
    output: Path,
    kind: str = "encoder",
    config: ExportConfig | None = None,
) -> None:
    """Writes a checkpoint as a model that runs without albert_tf.

    Args:
      source: a training run, a fine-tuned model, or any other checkpoint that
        `open_checkpoint` opens.
      output: the folder to make.
      kind: "encoder", "preprocessor" and "text_encoder" take the encoder of any
        checkpoint, "task" a fine-tuned model, and "litert", "onnx" and
        "openvino" either.
      config: the settings; None for the defaults.

    Raises:
      InputError: there is no such kind, or it does not support a setting; the
        checkpoint cannot be opened, or has no tokenizer; `output` exists.
    """
    config = config or ExportConfig()
    config.check_kind(kind)
    check_not_input(
        output, [source, *split_patterns(config.calibration_input or ())]
    )
    check_quantization(config.quantization, config.calibration_input)
    model = fine_tuned_model(source)
    with _without_progress():
        if kind == "task" or (kind in IDS_KINDS and model is not None):
            _export_task(model or source, output, kind, config)
        else:
            _export_encoder(source, model, output, kind, config)


@contextlib.contextmanager
def _without_progress() -> Iterator[None]:
    """Hides what TensorFlow logs in notebooks: each folder that it writes."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _export_task(
    source: Path, output: Path, kind: str, config: ExportConfig
) -> None:
    """Exports a fine-tuned model with its head."""
    loaded = load_model(
        source, {"max_seq_length": config.seq_length}, packed=False
    )
    task_type, task = loaded.task_type, loaded.task_type.task_config
    origin = origin_of_task(loaded.folder)
    arguments = {
        # Where its module is concerns this machine only.
        "task": dataclasses.replace(task, task_module=None).to_dict(),
        "origin": origin.with_licence(config.licence),
    }
    if kind == "task":
        packed = config.packed is not False
        graph = task_type.serving_graph(loaded.model, packed=packed)
        export_task(graph, output, overwrite=config.overwrite, **arguments)
    else:
        export_for_runtime(
            task_program(loaded, resizable=config.resizable),
            output,
            kind=kind,
            tokenizer=task_type.tokenizer,
            config=config,
            calibration=task_calibration(config, task_type),
            **arguments,
        )


def _export_encoder(
    source: Path,
    model: pathlib.Path | None,
    output: Path,
    kind: str,
    config: ExportConfig,
) -> None:
    """Exports the encoder, the tokenizer, or both, of any checkpoint.

    `model` is its folder, if it is a fine-tuned model.
    """
    # A task head is dropped, so its type does not matter.
    checkpoint = open_checkpoint(model or source, head="classifier_head")
    tokenizer = tokenizer_of(checkpoint, source)
    if model is not None:
        origin = origin_of_task(open_model_folder(model))
    else:
        origin = origin_of_checkpoint(checkpoint, source)
    origin = origin.with_licence(config.licence)
    if kind in IDS_KINDS:
        encoder = AlbertEncoder.from_checkpoint(checkpoint)
        longest = encoder.config.max_position_embeddings
        if kind == "litert":
            seq_length = config.seq_length or min(_DEFAULT_LENGTH, longest)
        else:
            seq_length = config.seq_length or longest
        warn_of_untrained_positions(encoder.config, seq_length, "seq_length")
        export_for_runtime(
            encoder_program(
                encoder, seq_length=seq_length, resizable=config.resizable
            ),
            output,
            kind=kind,
            tokenizer=tokenizer,
            config=config,
            calibration=text_calibration(config, tokenizer, seq_length),
            origin=origin,
        )
        return
    if kind != "preprocessor" and "pooler" not in checkpoint.components:
        raise InputError(
            f"{os.fspath(source)} has no pooler, so pooled_output cannot be "
            "computed: token classifiers, span labelers and masked language "
            "models lose the pooler; export the checkpoint that they were "
            "initialized from"
        )
    if kind != "preprocessor":
        longest = checkpoint.config.max_position_embeddings
        warn_of_untrained_positions(
            checkpoint.config,
            config.seq_length or longest,
            # Callers of an exported encoder decide how long its inputs are.
            "" if kind == "encoder" else "seq_length",
        )
    arguments = {"overwrite": config.overwrite, "origin": origin}
    if kind == "encoder":
        export_encoder(
            pretrained_model(checkpoint),
            output,
            tokenizer=tokenizer,
            packed=bool(config.packed),
            **arguments,
        )
    elif kind == "preprocessor":
        seq_length = config.seq_length or _DEFAULT_LENGTH
        export_preprocessor(
            tokenizer, output, seq_length=seq_length, **arguments
        )
    else:
        export_text_encoder(
            AlbertEncoder.from_checkpoint(checkpoint),
            output,
            tokenizer=tokenizer,
            seq_length=config.seq_length,
            packed=config.packed is not False,
            **arguments,
        )


def source_cases(
    model: str | os.PathLike[str], manifest: Mapping[str, Any]
) -> list[Case]:
    """Returns what an export's source model returns for some inputs.

    Args:
      model: the checkpoint that the export was made from.
      manifest: the values of `export.json`.

    Raises:
      InputError: `model` cannot be opened, or has another architecture or
        task than the export.
    """
    checkpoint = open_checkpoint(model, head="classifier_head")
    tokenizer = tokenizer_of(checkpoint, model)
    config = checkpoint.config.to_dict()
    _check_same(model, config, manifest.get("config", {}))
    if manifest.get("tokenizer"):
        fingerprint = manifest["tokenizer"]["fingerprint"]
        _check_same(
            model,
            {"vocabulary_sha256": tokenizer.fingerprint},
            {"vocabulary_sha256": fingerprint},
        )
    if "task" in manifest:
        config = TaskConfig.from_dict(manifest["task"]).to_dict()
        expected = {name: config[name] for name in ("task_type", "labels")}
        found = open_model_folder(model).task_config.to_dict()
        _check_same(model, found, expected)
    encoder_of = AlbertEncoder.from_checkpoint
    length = manifest.get("seq_length", 0)
    match manifest["kind"]:
        case "encoder":
            cases = encoder_cases(pretrained_model(checkpoint), checkpoint)
        case "preprocessor":
            cases = preprocessor_cases(tokenizer, length)
        case "text_encoder":
            cases = text_encoder_cases(
                encoder_of(checkpoint), tokenizer, length
            )
        case "task":
            cases = task_cases(model, manifest["task"]["settings"])
        case "litert" | "onnx" | "openvino" if "task" in manifest:
            settings = manifest["task"]["settings"]
            loaded = load_model(model, settings, packed=False)
            cases = litert_cases(task_program(loaded), checkpoint)
        case _:  # The encoder for another runtime.
            program = encoder_program(encoder_of(checkpoint), seq_length=length)
            cases = litert_cases(program, checkpoint)
    return list(cases)


def _check_same(
    model: str | os.PathLike[str],
    found: Mapping[str, Any],
    expected: Mapping[str, Any],
) -> None:
    for name, value in expected.items():
        if found[name] != value:
            raise InputError(
                f"model={os.fspath(model)} has {name}={found[name]}, but the "
                f"export {value}; name the checkpoint it was made from"
            )


def pretrained_model(
    checkpoint: Checkpoint,
) -> AlbertEncoder | AlbertPretrainer:
    """Loads the encoder, with the pretraining heads that it has."""
    if "mlm_head" not in checkpoint.components:
        return AlbertEncoder.from_checkpoint(checkpoint)
    return AlbertPretrainer.from_checkpoint(
        checkpoint, sop_head="sop_head" in checkpoint.components
    )
