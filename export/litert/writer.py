"""Writes a program as a folder with a LiteRT model."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.export.describe import describe_export
from albert_tf.export.litert.associated_files import append_files
from albert_tf.export.litert.conversion import (
    Example,
    check_quantization,
    convert,
)
from albert_tf.export.litert.program import ConstantGraph, LiteRtProgram
from albert_tf.export.manifest import (
    MANIFEST,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.export.origin import UNKNOWN, Origin
from albert_tf.new_folder import new_folder
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import tokenizer_files

MODEL_FILE = "model.tflite"
LABELS_FILE = "labels.txt"


def export_litert(
    program: LiteRtProgram,
    path: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer,
    quantization: str = "none",
    calibration: Sequence[Example] | None = None,
    task: Mapping[str, Any] | None = None,
    labels: Sequence[str] | None = None,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes `model.tflite`, `export.json` and a model card.

    The model has the signature `serving_default`, with the program's inputs
    (int32 `[batch, seq]`) and outputs (float32, and int32 indices) by name. As
    a ZIP archive, the same file holds the tokenizer's files and, if there
    are labels, `labels.txt` with one a line, in the order of the outputs.

    Args:
      program: what to write.
      path: the folder to make. It appears only when it is complete.
      tokenizer: of the model.
      quantization: "none", "float16", "dynamic" or "int8"; see `convert`.
      calibration: rows for "int8".
      task: what `export.json` says of the task, as JSON values.
      labels: names of the classes.
      overwrite: replace an export at `path`.
      origin: what the model card says of the weights.

    Raises:
      InputError: `path` is taken or cannot be made; see `check_quantization`.
    """
    check_quantization(quantization, calibration)
    longest = program.model.config.max_position_embeddings
    files = tokenizer_files(
        tokenizer,
        max_length=longest if program.resizable else program.seq_length,
    )
    if labels is not None:
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
