"""Exports of encoders and fine-tuned models for LiteRT."""

from __future__ import annotations

import hashlib
import itertools
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.export.config import ExportConfig
from albert_tf.export.litert_conversion import (
    ConstantGraph,
    Example,
    IdsProgram,
    check_quantization,
    convert,
)
from albert_tf.export.manifest import (
    MANIFEST,
    UNKNOWN,
    Origin,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.export.model_card import describe_export
from albert_tf.export.reference import Case, as_arrays, random_ids
from albert_tf.files import PathPatterns
from albert_tf.finetuning.data import examples_from_lines, read_examples
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.model_folder import FinetunedModel
from albert_tf.finetuning.task_type import TaskType
from albert_tf.folders import new_folder
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.pretraining.documents import read_documents
from albert_tf.pretraining.text_files import find_text_files
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import tokenizer_files

# The oldest date of the ZIP format for all files, so that equal exports have
# equal bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def append_files(
    path: str | os.PathLike[str], files: Mapping[str, bytes]
) -> None:
    """Appends a ZIP archive to a model, as TensorFlow Lite's metadata does.

    Interpreters read a model from its front, and unpackers an archive from its
    end. The files are stored without compression, so that they can be mapped
    into memory.

    Args:
      path: the model's file.
      files: name -> content.
    """
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)


MODEL_FILE = "model.tflite"
LABELS_FILE = "labels.txt"


def export_litert(
    program: IdsProgram,
    path: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer,
    quantization: str = "none",
    calibration: Sequence[Example] | None = None,
    task: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes `model.tflite`, `export.json` and a model card.

    The model has the signature `serving_default`, with the program's inputs
    (int32 `[batch, seq]`) and outputs (float32, and int32 indices) by name. As
    a ZIP archive, the same file holds the tokenizer's files and, if there
    are labels, `labels.txt` with one a line, in the order of the outputs.

    Args:
      program: the program to write.
      path: the folder to make. It appears only when it is complete.
      tokenizer: of the model.
      quantization: "none", "float16", "dynamic" or "int8"; see `convert`.
      calibration: rows for "int8".
      task: the task for `export.json`, as JSON values; its `labels`, if it
        has any, are stored beside the model.
      overwrite: replace an export at `path`.
      origin: of the weights, for the model card.

    Raises:
      InputError: `path` is taken or cannot be made; see `check_quantization`.
    """
    check_quantization(quantization, calibration)
    longest = program.model.config.max_position_embeddings
    files = tokenizer_files(
        tokenizer,
        max_length=longest if program.resizable else program.seq_length,
    )
    labels = (task or {}).get("labels")
    if labels:
        files[LABELS_FILE] = "".join(f"{x}\n" for x in labels).encode()
    with new_folder(path, overwrite, MANIFEST) as folder:
        graph = ConstantGraph(program)
        file = folder / MODEL_FILE
        file.write_bytes(convert(graph, quantization, calibration))
        append_files(file, files)
        outputs = graph.serve.get_concrete_function().structured_outputs
        describe_export(
            folder,
            {
                "kind": "litert",
                "file": MODEL_FILE,
                "bytes": file.stat().st_size,
                "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
                "quantization": quantization,
                "calibration_examples": len(calibration or ()),
                "seq_length": program.seq_length,
                "resizable": program.resizable,
                "associated_files": list(files),
                "signatures": {
                    "serving_default": {
                        "inputs": list(program.inputs),
                        "outputs": sorted(outputs),
                    }
                },
                **({"task": dict(task)} if task is not None else {}),
                "config": program.model.config.to_dict(),
                **describe_weights(graph.weights()),
                "tokenizer": describe_tokenizer(tokenizer, tokenizer.file_name),
            },
            origin,
        )


def task_program(
    loaded: FinetunedModel, *, resizable: bool = False
) -> IdsProgram:
    """Returns the program of a fine-tuned model.

    Its outputs are `probabilities` `[1, labels]` for a text classifier, `value`
    `[1]` for a regression, and for the others the scores that predictions are
    decoded from; see `TaskType.forward`.

    Args:
      loaded: the model; a row has the task's `max_seq_length`.
      resizable: see `IdsProgram`.
    """
    task_type = loaded.task_type
    return IdsProgram(
        model=loaded.model,
        forward=lambda model, inputs: dict(
            task_type.litert_outputs(model, inputs)
        ),
        inputs=task_type.model_inputs,
        seq_length=task_type.max_seq_length,
        resizable=resizable,
    )


def text_calibration(
    config: ExportConfig, tokenizer: Tokenizer, seq_length: int
) -> list[Example] | None:
    """Returns the first lines of the calibration files as rows.

    Args:
      config: names the files; None is returned without any.
      tokenizer: the model's tokenizer.
      seq_length: tokens of a row.

    Raises:
      InputError: a file cannot be read.
    """
    if config.calibration_input is None:
        return None
    lines = _text_lines(config.calibration_input)
    return [
        tokenizer(line, max_length=seq_length, padding="max_length")
        for line in itertools.islice(lines, config.calibration_examples)
    ]


def task_calibration(
    config: ExportConfig, task_type: TaskType
) -> list[Example] | None:
    """Returns the features of the first calibration examples as rows.

    Args:
      config: names the files; None is returned without any.
      task_type: the task.

    Raises:
      InputError: a file cannot be read, or is not in the task's format.
    """
    if config.calibration_input is None:
        return None
    examples = _calibration_examples(task_type, config.calibration_input)
    features = task_type.prediction_features(
        list(itertools.islice(examples, config.calibration_examples))
    )
    return [
        features.pad([number], length=task_type.max_seq_length)
        for number in range(
            min(features.num_examples, config.calibration_examples)
        )
    ]


def _calibration_examples(
    task_type: TaskType, patterns: PathPatterns
) -> Iterator[Any]:
    """Yields examples without labels from text files or a task's own."""
    if task_type.reads_lines:
        yield from examples_from_lines(
            task_type, _text_lines(patterns), "calibration_input"
        )
        return
    for path in find_text_files(patterns):
        yield from read_examples(
            task_type, path, bad=BadExamples("stop"), labelled=False
        )


def _text_lines(patterns: PathPatterns) -> Iterator[str]:
    """Yields the lines of text files that are not blank."""
    for path in find_text_files(patterns):
        for document in read_documents(path):
            yield from document


def litert_cases(program: IdsProgram, checkpoint: Checkpoint) -> Iterator[Case]:
    """Yields what a LiteRT model of a program has to return.

    Args:
      program: the program.
      checkpoint: what its model was loaded from.
    """
    ids = random_ids(checkpoint, program.seq_length)
    # Nothing is masked: scores of masked positions are arbitrary.
    zeros = np.zeros_like(ids["input_mask"])
    inputs = dict.fromkeys(program.inputs, zeros) | ids
    outputs = program.forward(program.model, inputs)
    # Positions depend on rounding where scores are alike.
    floats = [name for name, x in outputs.items() if x.dtype.is_floating]
    outputs = as_arrays(outputs, *floats)
    yield Case("random ids", "serving_default", inputs, outputs)
