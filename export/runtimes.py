"""Exports for ONNX Runtime and OpenVINO."""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from albert_tf.export.litert import LABELS_FILE
from albert_tf.export.litert_conversion import IdsProgram
from albert_tf.export.manifest import (
    MANIFEST,
    UNKNOWN,
    Origin,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.export.model_card import describe_export
from albert_tf.export.onnx_graph import onnx_model, require
from albert_tf.folders import new_folder
from albert_tf.models.pretrained import merged_weights
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.tokenizer_files import tokenizer_files

# Kind -> the file that its runtime reads.
MODEL_FILES = {"onnx": "model.onnx", "openvino": "model.xml"}
# A protocol buffer has less than 2 GiB; weights of more go into a second file.
_LARGEST_FILE = 2**31 - 2**20


def export_for_runtime(
    program: IdsProgram,
    path: str | os.PathLike[str],
    *,
    kind: str,
    tokenizer: Tokenizer,
    quantization: str = "none",
    task: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes a model with its tokenizer, `export.json` and a model card.

    It takes the program's inputs by name, int32 `[batch, seq]` of any size,
    and returns its outputs by name. Beside it are the tokenizer's files and, if
    there are labels, `labels.txt` with one a line, in the order of the outputs.

    Args:
      program: the program to write.
      path: the folder to make. It appears only when it is complete.
      kind: "onnx" for `model.onnx`, "openvino" for `model.xml` and `model.bin`.
      tokenizer: of the model.
      quantization: "none"; "float16": weights in float16, computed with as
        float32; "dynamic": matrices in int8 with a scale for each output, and
        what is multiplied with them when it is there.
      task: the task for `export.json`, as JSON values; its `labels`, if it
        has any, are stored beside the model.
      overwrite: replace an export at `path`.
      origin: of the weights, for the model card.

    Raises:
      InputError: `path` is taken or cannot be made, or see `onnx_model`.
    """
    files = tokenizer_files(tokenizer, max_length=program.seq_length)
    labels = (task or {}).get("labels")
    if labels:
        files[LABELS_FILE] = "".join(f"{x}\n" for x in labels).encode()
    write = _write_onnx if kind == "onnx" else _write_openvino
    with new_folder(path, overwrite, MANIFEST) as folder:
        outputs = write(program, folder, quantization)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        describe_export(
            folder,
            {
                "kind": kind,
                "file": MODEL_FILES[kind],
                "files": {
                    file.name: {
                        "bytes": file.stat().st_size,
                        "sha256": _sha256(file),
                    }
                    for file in sorted(folder.iterdir())
                },
                "quantization": quantization,
                "seq_length": program.seq_length,
                "signatures": {
                    "serving_default": {
                        "inputs": list(program.inputs),
                        "outputs": outputs,
                    }
                },
                **({"task": dict(task)} if task is not None else {}),
                "config": program.model.config.to_dict(),
                **describe_weights(dict(merged_weights(program.model))),
                "tokenizer": describe_tokenizer(tokenizer, tokenizer.file_name),
            },
            origin,
        )


def _sha256(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_onnx(
    program: IdsProgram, folder: pathlib.Path, quantization: str
) -> list[str]:
    """Writes `model.onnx`; returns the names of its outputs."""
    (onnx,) = require("onnx", "onnx")
    model = onnx_model(
        program, "float16" if quantization == "float16" else "float32"
    )
    path = folder / MODEL_FILES["onnx"]
    if quantization != "dynamic":
        _save(onnx, model, path)
        return sorted(output.name for output in model.graph.output)
    (quantizer,) = require("onnx", "onnxruntime.quantization")
    # Its preprocessing would store shared weights once a layer, and without
    # this mark it recommends that.
    quantizer.quant_utils.add_pre_process_metadata(model)
    quantizer.quantize_dynamic(
        model,
        path,
        per_channel=True,
        weight_type=quantizer.QuantType.QInt8,
        use_external_data_format=_is_large(model),
    )
    return sorted(output.name for output in model.graph.output)


def _write_openvino(
    program: IdsProgram, folder: pathlib.Path, quantization: str
) -> list[str]:
    """Writes `model.xml` and `model.bin`; returns the names of the outputs."""
    onnx, openvino = require("openvino", "onnx", "openvino")
    model = onnx_model(
        program,
        "int8" if quantization == "dynamic" else "float32",
        kind="openvino",
    )
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, MODEL_FILES["onnx"])
        _save(onnx, model, path)
        openvino.save_model(
            # Not convert_model, which also reports its use over the network.
            openvino.Core().read_model(path),
            folder / MODEL_FILES["openvino"],
            compress_to_fp16=quantization == "float16",
        )
    return sorted(output.name for output in model.graph.output)


def _save(onnx, model, path: pathlib.Path) -> None:
    onnx.save_model(
        model,
        path,
        save_as_external_data=_is_large(model),
        location=f"{path.name}.data",
    )


def _is_large(model) -> bool:
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    return size > _LARGEST_FILE
