"""The encoder of a checkpoint, or a fine-tuned model, for LiteRT."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from albert_tf.data.documents import find_text_files, read_documents
from albert_tf.data.examples.bad_examples import BadExamples
from albert_tf.export.litert.conversion import Example, check_quantization
from albert_tf.export.litert.program import LiteRtProgram, encoder_program
from albert_tf.export.litert.writer import export_litert
from albert_tf.interop.formats.run_folder import fine_tuned_model
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.inputs import ENCODER_INPUTS, P_MASK
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.opened import tokenizer_of
from albert_tf.tasks.exporting.origins import origin_of
from albert_tf.tasks.finetuning.inputs import examples_of_lines
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.tasks.finetuning.model_folder import FinetunedModel, load_model
from albert_tf.tasks.finetuning.task_files import read_examples
from albert_tf.text.base_tokenizer import Tokenizer

_ENCODER_LENGTH = 128


def export_checkpoint_litert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: ExportConfig,
) -> None:
    """Writes a fine-tuned model, or the encoder of any other checkpoint.

    A model of classes gives `probabilities` `[1, labels]`, one of numbers
    `value` `[1]`, and others what their answers are decoded from; see
    `TaskKind.forward`.

    Raises:
      InputError: see `export_checkpoint` and `export_litert`; the text of the
        calibration cannot be read.
    """
    check_quantization(config.quantization, config.calibration_input)
    if fine_tuned_model(source) is not None:
        _export_task(source, output, config)
    else:
        _export_encoder(source, output, config)


def _export_encoder(source, output, config: ExportConfig) -> None:
    # Whose head it is does not matter.
    checkpoint = open_checkpoint(source, head="classifier_head")
    tokenizer = tokenizer_of(checkpoint, source)
    model = AlbertEncoder.from_checkpoint(checkpoint)
    program = encoder_program(
        model,
        seq_length=config.seq_length
        or min(_ENCODER_LENGTH, model.config.max_position_embeddings),
        resizable=config.resizable,
    )
    export_litert(
        program,
        output,
        tokenizer=tokenizer,
        quantization=config.quantization,
        calibration=_rows_of_texts(tokenizer, program, config),
        overwrite=config.overwrite,
        origin=origin_of(source, config, checkpoint),
    )


def _export_task(source, output, config: ExportConfig) -> None:
    loaded = load_model(
        source, {"max_seq_length": config.seq_length}, packed=False
    )
    description = loaded.kind.description
    program = task_program(loaded, resizable=config.resizable)
    export_litert(
        program,
        output,
        tokenizer=loaded.kind.tokenizer,
        quantization=config.quantization,
        calibration=_rows_of_examples(loaded.kind, program, config),
        task=json.loads(description.to_json()),
        labels=description.labels,
        overwrite=config.overwrite,
        origin=origin_of(source, config),
    )


def task_program(
    loaded: FinetunedModel, *, resizable: bool = False
) -> LiteRtProgram:
    """Returns a fine-tuned model from ids to what its kind gives.

    Args:
      loaded: the model; rows have the task's `max_seq_length`.
      resizable: see `LiteRtProgram`.
    """
    kind = loaded.kind
    joint = kind.description.settings.get("head") == "joint"
    return LiteRtProgram(
        model=loaded.model,
        forward=lambda model, inputs: _outputs(kind, model, inputs),
        inputs=(*ENCODER_INPUTS, P_MASK) if joint else ENCODER_INPUTS,
        seq_length=kind.max_seq_length,
        resizable=resizable,
    )


def _outputs(kind: TaskKind, model, inputs) -> dict[str, tf.Tensor]:
    outputs = dict(kind.forward(model, inputs))
    if kind.description.kind == "classes":
        return {"probabilities": tf.nn.softmax(outputs["logits"])}
    if kind.description.kind == "number":
        return {"value": outputs["logits"][:, 0]}
    return outputs


def _lines(config: ExportConfig) -> Iterator[str]:
    """Yields the lines of the calibration's files that are not blank."""
    for path in find_text_files(config.calibration_input):
        for document in read_documents(path):
            yield from document


def _rows_of_texts(
    tokenizer: Tokenizer, program: LiteRtProgram, config: ExportConfig
) -> list[Example] | None:
    """Returns the first lines of the calibration's files as rows."""
    if config.calibration_input is None:
        return None
    return [
        tokenizer(line, max_length=program.seq_length, padding="max_length")
        for line in itertools.islice(
            _lines(config), config.calibration_examples
        )
    ]


def _rows_of_examples(
    kind: TaskKind, program: LiteRtProgram, config: ExportConfig
) -> list[Example] | None:
    """Returns the first examples of the calibration's files as rows."""
    if config.calibration_input is None:
        return None
    examples = itertools.islice(
        _examples(kind, config), config.calibration_examples
    )
    rows = kind.prepare(list(examples)).rows
    return [
        rows.pad([number], length=program.seq_length)
        for number in range(min(rows.num_examples, config.calibration_examples))
    ]


def _examples(kind: TaskKind, config: ExportConfig) -> Iterator[Any]:
    if kind.description.kind in ("classes", "number", "words"):
        yield from examples_of_lines(
            kind.description, _lines(config), "calibration_input"
        )
        return
    for path in find_text_files(config.calibration_input):
        yield from read_examples(
            kind.description, path, bad=BadExamples("stop"), labelled=False
        )
