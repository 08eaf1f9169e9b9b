"""Runtimes of exports that take ids, for `check_program`; without albert_tf."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Arrays = Mapping[str, np.ndarray]


class Loaded(NamedTuple):
    """A model in a runtime.

    Attributes:
      runtime: its name and version.
      inputs: names of the inputs.
      run: returns outputs by name, from inputs by name.
      weights: None, or returns the constants of the graph by name.
    """

    runtime: str
    inputs: Sequence[str]
    run: Callable[[Arrays], Arrays]
    weights: Callable[[], Arrays] | None = None


def load_litert(path: str) -> Loaded:
    """Loads a LiteRT model, which is run row by row."""
    import tensorflow as tf

    interpret = tf.lite.Interpreter(path).get_signature_runner()

    def run(inputs):
        rows = []
        for row in range(len(next(iter(inputs.values())))):
            found = interpret(**{x: inputs[x][row : row + 1] for x in inputs})
            # Copies, as the next call overwrites the results.
            rows.append({name: np.array(x) for name, x in found.items()})
        return {x: np.concatenate([row[x] for row in rows]) for x in rows[0]}

    names = list(interpret.get_input_details())
    return Loaded(f"TensorFlow {tf.__version__}", names, run)


def load_onnx(path: str) -> Loaded:
    """Loads an ONNX model in ONNX Runtime."""
    import onnx
    import onnxruntime

    session = onnxruntime.InferenceSession(
        path, providers=["CPUExecutionProvider"]
    )
    names = [x.name for x in session.get_outputs()]

    def run(inputs):
        values = session.run(names, dict(inputs))
        return dict(zip(names, values, strict=True))

    def weights():
        graph = onnx.load(path).graph
        return {
            x.name: onnx.numpy_helper.to_array(x) for x in graph.initializer
        }

    return Loaded(
        f"ONNX Runtime {onnxruntime.__version__}",
        [x.name for x in session.get_inputs()],
        run,
        weights,
    )


def load_openvino(path: str) -> Loaded:
    """Loads an OpenVINO model, in float32 whatever the CPU offers."""
    import openvino

    model = openvino.Core().compile_model(
        path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )

    def run(inputs):
        results = model(dict(inputs))
        return {x.get_any_name(): results[x] for x in model.outputs}

    return Loaded(
        f"OpenVINO {openvino.__version__.partition('-')[0]}",
        [x.get_any_name() for x in model.inputs],
        run,
    )


LOADERS = {
    "litert": load_litert,
    "onnx": load_onnx,
    "openvino": load_openvino,
}
