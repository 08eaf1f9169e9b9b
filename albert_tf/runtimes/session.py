"""Models that ONNX Runtime or OpenVINO runs, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.models.base import MASKED_LM_POSITIONS
from albert_tf.optional_packages import import_package
from albert_tf.runtimes.config import Runtime
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
    return _SESSIONS[runtime](program, f"models with runtime={runtime}")


def _onnx_bytes(program: IdsProgram, purpose: str) -> bytes:
    model = onnx_model(program, purpose=purpose, packed=True)
    if model.ByteSize() > _LARGEST_MODEL:
        raise InputError(f"{purpose} have up to 2 GiB; use runtime=keras")
    return model.SerializeToString()


def _onnx_runtime(program: IdsProgram, purpose: str) -> Session:
    package = import_package("onnxruntime", purpose)
    options = package.SessionOptions()
    options.log_severity_level = 3  # No warnings.
    session = package.InferenceSession(
        _onnx_bytes(program, purpose),
        options,
        providers=["CPUExecutionProvider"],
    )
    names = [output.name for output in session.get_outputs()]

    def run(inputs):
        outputs = session.run(names, dict(inputs))
        return dict(zip(names, outputs, strict=True))

    return run


def _openvino(program: IdsProgram, purpose: str) -> Session:
    package = import_package("openvino", purpose)
    core = package.Core()
    network = core.read_model(_onnx_bytes(program, purpose))
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


# The keys are those of `PACKAGES`.
_SESSIONS: Mapping[Runtime, Callable[[IdsProgram, str], Session]] = {
    "onnx": _onnx_runtime,
    "openvino": _openvino,
}


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
