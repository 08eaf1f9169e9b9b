"""Formats of other runtimes' models, which are made from an ONNX graph."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import NamedTuple

from albert_tf.files import writing
from albert_tf.optional_packages import import_package, import_packages
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.runtimes.onnx_graph import onnx_model
from albert_tf.runtimes.session import bound_shapes

# A protocol buffer is smaller than 2 GiB; larger weights need a second file.
_LARGEST_FILE = 2**31 - 2**20

_ONNX = """\
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{file}")
{inputs}
for output, values in zip(session.get_outputs(), session.run(None, inputs)):
    print(output.name, values.shape)"""

_OPENVINO = """\
import numpy as np
import openvino

# For the speed of bfloat16 where the CPU has it: "bf16" instead of "f32".
precision = {{"INFERENCE_PRECISION_HINT": "f32"}}
model = openvino.Core().compile_model("{file}", "CPU", precision)
{inputs}
for output, values in model(inputs).items():
    print(output.get_any_name(), values.shape)"""


class Format(NamedTuple):
    """The format of a runtime's models.

    Attributes:
      runtime: name of the runtime.
      file: the file that the runtime reads.
      packages: packages that write it, besides Keras and TensorFlow.
      usage: Python code that reads `{file}` and computes outputs of `{inputs}`,
        the code of a dict `inputs`, for the model card.
      write: writes the file from a program, the file's path, the quantization
        and whether padding is removed; returns the names of the outputs.
    """

    runtime: str
    file: str
    packages: tuple[str, ...]
    usage: str
    write: Callable[[IdsProgram, pathlib.Path, str, bool], list[str]]


def _write_onnx(
    program: IdsProgram, path: pathlib.Path, quantization: str, packed: bool
) -> list[str]:
    """Writes `model.onnx`; returns its output names."""
    onnx = import_package("onnx", purpose_of("onnx"))
    model = onnx_model(
        program,
        "float16" if quantization == "float16" else "float32",
        purpose=purpose_of("onnx"),
        packed=packed,
    )
    if quantization == "dynamic":
        save_quantized(model, path)
    else:
        save(onnx, model, path)
    return [output.name for output in model.graph.output]


def _write_openvino(
    program: IdsProgram, path: pathlib.Path, quantization: str, packed: bool
) -> list[str]:
    """Writes `model.xml` and `model.bin`; returns the output names."""
    onnx, openvino, _ = import_packages(
        ["onnx", "openvino", "tf2onnx"], purpose_of("openvino")
    )
    model = onnx_model(
        program,
        "int8" if quantization == "dynamic" else "float32",
        purpose=purpose_of("openvino"),
        packed=packed,
    )
    with tempfile.TemporaryDirectory() as scratch:
        translated = pathlib.Path(scratch, "model.onnx")
        with writing(translated):
            save(onnx, model, translated)
        # Unlike convert_model, this does not send telemetry.
        network = openvino.Core().read_model(translated)
        names = [x.name for x in (*model.graph.input, *model.graph.output)]
        for port in (*network.inputs, *network.outputs):
            # Without those of merged tensors, which servers might show.
            port.get_tensor().set_names(port.names.intersection(names))
        bound_shapes(openvino, network, program)
        try:
            openvino.save_model(
                network, path, compress_to_fp16=quantization == "float16"
            )
        except RuntimeError:
            # Its "iostream error" may be a full disk, which this would report.
            path.with_suffix(".bin").write_bytes(translated.read_bytes())
            raise
    return [output.name for output in model.graph.output]


# By kind of export.
FORMATS: Mapping[str, Format] = {
    "onnx": Format("ONNX Runtime", "model.onnx", ("onnx",), _ONNX, _write_onnx),
    "openvino": Format(
        "OpenVINO",
        "model.xml",
        ("onnx", "openvino"),
        _OPENVINO,
        _write_openvino,
    ),
}


def purpose_of(kind: str) -> str:
    """Returns what needs the packages of a kind, for `import_packages`."""
    return f"exports of kind={kind}"


def save(onnx, model, path: pathlib.Path) -> None:
    """Saves an ONNX model, with its weights in a second file if it is large."""
    onnx.save_model(
        model,
        path,
        save_as_external_data=_is_large(model),
        location=f"{path.name}.data",
    )


def _is_large(model) -> bool:
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    return size > _LARGEST_FILE


def save_quantized(model, path: pathlib.Path) -> None:
    """Quantizes a model's weights to int8, and saves it."""
    quantizer = import_package("onnxruntime.quantization", purpose_of("onnx"))
    # Marks the model as preprocessed, which silences a recommendation: the
    # preprocessing would store shared weights once per layer.
    quantizer.quant_utils.add_pre_process_metadata(model)
    quantizer.quantize_dynamic(
        model,
        path,
        per_channel=True,
        weight_type=quantizer.QuantType.QInt8,
        # 7 bits: without VNNI, x86 CPUs add two products of 8-bit numbers in
        # 16 bits, which saturates and makes errors up to four times larger. The
        # session option against it fails for layers that share weights.
        reduce_range=True,
        use_external_data_format=_is_large(model),
    )


def format_of(kind: str) -> Format | None:
    """Returns the format of an export's ONNX graph, if it is made from one."""
    return FORMATS.get("onnx" if kind == "web" else kind)
