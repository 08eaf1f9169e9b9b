"""Models that ONNX Runtime or OpenVINO runs, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from albert_tf.errors import InputError, import_package
from albert_tf.models.base import MASKED_LM_POSITIONS
from albert_tf.runtimes.config import PACKAGES, Runtime
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.runtimes.onnx_graph import onnx_model

_LARGEST_MODEL = 2**31 - 2**20

# Maps arrays by name to outputs by name.
Session = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def make_session(program: IdsProgram, runtime: Runtime) -> Session:
    """Converts a program, in memory, for another runtime.

    Padding is not computed. The conversion takes about a second for a base
    model, less than opening the checkpoint, so it is not stored. With the
    policy "mixed_bfloat16" OpenVINO computes in bfloat16; ONNX Runtime always
    computes in float32.

    Args:
      program: the program; inputs may have any shape.
      runtime: "onnx" or "openvino".

    Raises:
      InputError: if a package is not installed, the program uses an operation
        that ONNX does not support, or the model is larger than 2 GiB.
    """
    purpose = f"models with runtime={runtime}"
    package = import_package(PACKAGES[runtime][0], purpose)
    model = onnx_model(program, purpose=purpose, packed=True)
    if model.ByteSize() > _LARGEST_MODEL:
        raise InputError(
            f"runtime={runtime} takes models up to 2 GiB; use runtime=keras"
        )
    make = _onnx_runtime if runtime == "onnx" else _openvino
    return make(package, model.SerializeToString(), program)


def _onnx_runtime(package: Any, model: bytes, _: IdsProgram) -> Session:
    options = package.SessionOptions()
    options.log_severity_level = 3  # No warnings.
    session = package.InferenceSession(
        model, options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run(inputs):
        outputs = session.run(names, dict(inputs))
        return dict(zip(names, outputs, strict=True))

    return run


def _openvino(package: Any, model: bytes, program: IdsProgram) -> Session:
    core = package.Core()
    network = core.read_model(model)
    bound_shapes(package, network, program)
    policy = program.model.dtype_policy.compute_dtype
    precision = "bf16" if policy == "bfloat16" else "f32"
    compiled = core.compile_model(
        network,
        "CPU",
        {"INFERENCE_PRECISION_HINT": precision},
    )
    names = [output.any_name for output in network.outputs]

    def run(inputs):
        # A new request for each call, as threads may share a session.
        outputs = compiled.create_infer_request().infer(dict(inputs))
        return {
            name: np.array(outputs[port])
            for name, port in zip(names, compiled.outputs, strict=True)
        }

    return run


def bound_shapes(openvino: Any, network: Any, program: IdsProgram) -> None:
    """Sets the shapes that an OpenVINO model accepts.

    It checks inputs against these bounds. Without them, on one core, it adds
    position embeddings of another length and returns arbitrary numbers.
    """
    longest = program.model.config.max_position_embeddings
    shapes = {}
    for port in network.inputs:
        # There may be no masked positions.
        least = 0 if port.any_name == MASKED_LM_POSITIONS else 1
        length = openvino.Dimension(least, longest)
        shapes[port] = [openvino.Dimension(), length]
    network.reshape(shapes)
