"""Exports of checkpoints and fine-tuned models."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import tempfile
from collections.abc import Iterator

from albert_tf.config import check_positions, warn_of_untrained_positions
from albert_tf.errors import InputError
from albert_tf.exporting.config import IDS_KINDS, ExportConfig
from albert_tf.exporting.encoder import export_encoder, load_with_heads
from albert_tf.exporting.huggingface_layout import huggingface_program
from albert_tf.exporting.manifest import MANIFEST
from albert_tf.exporting.origin import origin_of_checkpoint, origin_of_task
from albert_tf.exporting.preprocessor import export_preprocessor
from albert_tf.exporting.runtimes import (
    export_for_runtime,
    task_calibration,
    task_program,
    text_calibration,
)
from albert_tf.exporting.task import export_task
from albert_tf.exporting.text_encoder import export_text_encoder
from albert_tf.exporting.web_page import page_scripts, write_web_page
from albert_tf.files import check_not_input, split_patterns
from albert_tf.finetuning.model_folder import load_model, open_model_folder
from albert_tf.finetuning.serving import ServingGraph
from albert_tf.folders import new_folder
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.names import ANY_HEAD
from albert_tf.interop.open_checkpoint import (
    open_checkpoint,
    open_fine_tuned,
)
from albert_tf.interop.sentence_transformers import (
    check_case,
    default_length,
    default_pooling,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrained import tokenizer_of
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.settings import takes
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import DEFAULT_LENGTH
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_json import has_tokenizer_json

_logger = logging.getLogger(__name__)


@takes(ExportConfig)
def export(config: ExportConfig) -> None:
    """Exports a checkpoint to a model that runs without albert_tf.

    Args:
      config: the checkpoint, the output folder, which must not exist, and the
        settings.

    Raises:
      InputError: if the checkpoint cannot be opened or has no tokenizer, or the
        output folder exists.
    """
    config.load_task_module()
    check_not_input(
        config.output,
        [config.model, *split_patterns(config.calibration_input or ())],
    )
    # An archive is unpacked as long as it is open.
    tuned, opened = open_fine_tuned(config.model)
    kind = config.kind
    with _without_progress():
        if config.layout != "huggingface" and (
            kind == "task" or (kind in IDS_KINDS and tuned)
        ):
            _export_task(config, tuned or config.model)
            return
        # Where a task head is dropped, its type does not matter.
        checkpoint = opened or open_checkpoint(
            tuned or config.model, head=ANY_HEAD
        )
        if kind == "web":
            _export_web(config, tuned, checkpoint)
        elif config.layout == "huggingface":
            _export_huggingface(config, tuned, checkpoint)
        else:
            _export_encoder(config, tuned, checkpoint)


@contextlib.contextmanager
def _without_progress() -> Iterator[None]:
    """Hides TensorFlow's log messages, one for each file that it writes."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _export_task(config: ExportConfig, source: str | os.PathLike[str]) -> None:
    """Exports a fine-tuned model with its head."""
    loaded = load_model(
        source, {"max_seq_length": config.seq_length}, packed=False
    )
    task_type, task = loaded.task_type, loaded.task_type.task_config
    origin = origin_of_task(loaded.folder, config.model)
    arguments = {
        # The path of its module is valid on this machine only.
        "task": dataclasses.replace(task, task_module=None).to_dict(),
        "origin": origin.with_license(config.license),
    }
    if config.kind == "task":
        packed = config.is_packed(task=True)
        graph = ServingGraph(task_type, loaded.model, packed=packed)
        export_task(
            graph, config.output, overwrite=config.overwrite, **arguments
        )
    else:
        export_for_runtime(
            task_program(loaded, resizable=config.resizable),
            config,
            tokenizer=task_type.tokenizer,
            calibration=task_calibration(config, task_type),
            **arguments,
        )


def _export_huggingface(
    config: ExportConfig,
    folder: pathlib.Path | None,
    checkpoint: Checkpoint,
    *,
    page: bool = False,
) -> None:
    """Exports any checkpoint with its head, for Hugging Face's libraries.

    `folder` is that of the model if it is a fine-tuned one; for `page`, see
    `huggingface_program`.
    """
    source = config.model
    length, task = _trained_length(checkpoint), None
    if folder is None:
        origin = origin_of_checkpoint(checkpoint, source)
    else:
        tuned = open_model_folder(folder)
        origin, task = origin_of_task(tuned, source), tuned.task_config
        length = task.settings["max_seq_length"]
        task = dataclasses.replace(task, task_module=None).to_dict()
    length = config.seq_length or length
    tokenizer = _tokenizer_for_libraries(checkpoint, source)
    warn_of_untrained_positions(checkpoint.config, length, "seq_length")
    export_for_runtime(
        huggingface_program(checkpoint, length, page=page),
        config,
        tokenizer=tokenizer,
        task=task,
        origin=origin.with_license(config.license),
    )


def _tokenizer_for_libraries(
    checkpoint: Checkpoint, source: str | os.PathLike[str]
) -> Tokenizer:
    """Returns the tokenizer, which must have a `tokenizer.json`."""
    tokenizer = tokenizer_of(checkpoint, source)
    if isinstance(tokenizer, AlbertTokenizer):
        if not has_tokenizer_json(tokenizer):
            raise InputError(
                f"{os.fspath(source)}: Hugging Face's libraries cannot compute "
                "its tokens (byte fallback, or user-defined pieces of a BPE "
                "vocabulary); choose another kind or layout"
            )
    return tokenizer


def _trained_length(checkpoint: Checkpoint) -> int:
    """Returns the length of rows if none is given."""
    longest = checkpoint.config.num_trained_positions
    return default_length(checkpoint.folder, longest)


def _export_web(
    config: ExportConfig,
    folder: pathlib.Path | None,
    checkpoint: Checkpoint,
) -> None:
    """Exports a model for browsers, with a page for it."""
    # What is wrong is reported before anything is fetched or converted.
    _tokenizer_for_libraries(checkpoint, config.model)
    pooling = default_pooling(checkpoint.folder)
    if pooling == "weighted_mean":
        raise InputError(
            f"{checkpoint.source} weighs tokens (WordWeights), which pages do "
            "not support; drop that with `albert convert --drop=pooling`, for "
            "plain means"
        )
    with (
        tempfile.TemporaryDirectory() as scratch,
        new_folder(config.output, config.overwrite, MANIFEST) as new,
    ):
        scripts = page_scripts(config.web_packages)
        layout = pathlib.Path(scratch, "model")
        model_only = dataclasses.replace(
            config,
            kind="onnx",
            layout="huggingface",
            output=layout,
            web_packages=None,
        )
        _export_huggingface(model_only, folder, checkpoint, page=True)
        write_web_page(layout, scripts, pooling, new)


def _export_encoder(
    config: ExportConfig,
    folder: pathlib.Path | None,
    checkpoint: Checkpoint,
) -> None:
    """Exports the encoder, the tokenizer, or both, of any checkpoint.

    `folder` is that of the model if it is a fine-tuned one.
    """
    source, output, kind = config.model, config.output, config.kind
    tokenizer = tokenizer_of(checkpoint, source)
    if folder is not None:
        origin = origin_of_task(open_model_folder(folder), source)
    else:
        origin = origin_of_checkpoint(checkpoint, source)
    origin = origin.with_license(config.license)
    check_case(
        checkpoint.folder, tokenizer.settings.get("do_lower_case", False)
    )
    has_mean = kind not in ("preprocessor", "encoder")
    if has_mean and default_pooling(checkpoint.folder) == "weighted_mean":
        _logger.warning(
            "%s weighs tokens (WordWeights); mean_output of the export is the "
            "plain mean, so it differs from SentenceEmbedder's vectors",
            os.fspath(source),
        )
    seq_length = config.seq_length or _trained_length(checkpoint)
    if kind in ("preprocessor", "litert") and not config.seq_length:
        seq_length = min(DEFAULT_LENGTH, seq_length)
    if kind in IDS_KINDS:
        encoder = AlbertEncoder.from_checkpoint(checkpoint)
        warn_of_untrained_positions(encoder.config, seq_length, "seq_length")
        export_for_runtime(
            encoder_program(
                encoder, seq_length=seq_length, resizable=config.resizable
            ),
            config,
            tokenizer=tokenizer,
            calibration=text_calibration(config, tokenizer, seq_length),
            origin=origin,
        )
        return
    arguments = {"overwrite": config.overwrite, "origin": origin}
    if kind == "preprocessor":
        check_positions(checkpoint.config, seq_length, "seq_length")
        export_preprocessor(
            tokenizer, output, seq_length=seq_length, **arguments
        )
        return
    if "pooler" not in checkpoint.components:
        raise InputError(
            f"{os.fspath(source)} has no pooler, so pooled_output cannot be "
            "computed: token classifiers, question-answering models, masked "
            "language models and embedders lose the pooler; export the "
            "checkpoint that they were initialized from, or embeddings with "
            "--kind=onnx, openvino or litert or, if they were fine-tuned, "
            "--kind=task"
        )
    if kind == "encoder":
        if {"sop_head", "mlm_head"} & checkpoint.components == {"sop_head"}:
            _logger.warning(
                "%s has a sentence-order head, but no head for masked words: "
                "the export has neither .sop nor .mlm",
                os.fspath(source),
            )
        # Callers of an exported encoder choose the length of its inputs.
        warn_of_untrained_positions(
            checkpoint.config, checkpoint.config.max_position_embeddings, ""
        )
        export_encoder(
            load_with_heads(checkpoint),
            output,
            tokenizer=tokenizer,
            packed=config.is_packed(),
            **arguments,
        )
    else:
        warn_of_untrained_positions(checkpoint.config, seq_length, "seq_length")
        export_text_encoder(
            AlbertEncoder.from_checkpoint(checkpoint),
            output,
            tokenizer=tokenizer,
            seq_length=seq_length,
            packed=config.is_packed(),
            **arguments,
        )
