"""Conversion of models to LiteRT, and quantization."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from albert_tf.layers.shared_stack import SharedStack
from albert_tf.models.model_graph import ModelGraph
from albert_tf.runtimes.ids_program import IdsProgram


class ConstantGraph(ModelGraph):
    """A program as a `tf.function` whose weights are constants.

    So the converter can fold what depends on constants only (the joint kernel
    of query, key and value), lay out matrices for `FULLY_CONNECTED`, and store
    equal constants once, such as the weights of shared layers. Products with
    variables would be `BATCH_MATMUL` operations.

    Attributes:
      serve: the function, of keyword arguments; its only signature.

    Args:
      program: the program to trace.
    """

    def __init__(self, program: IdsProgram):
        super().__init__(program.model, packed=False)
        for layer in self._copy._flatten_layers():
            if isinstance(layer, SharedStack):
                layer.space_kernels = False
        fixed = [1, program.seq_length]
        shape = [None, None] if program.resizable else fixed
        signature = [
            tf.TensorSpec(shape, tf.int32, name) for name in program.inputs
        ]

        values = [np.asarray(weight) for weight in self._copy.weights]

        def serve(*rows):
            constants = zip(
                self._copy.weights, map(tf.constant, values), strict=True
            )
            inputs = dict(zip(program.inputs, rows, strict=True))
            with keras.StatelessScope(state_mapping=list(constants)):
                return dict(program.forward(self._copy, inputs))

        self.serve = tf.function(
            serve, input_signature=signature, autograph=False
        )

    @property
    def output_ranks(self) -> dict[str, int]:
        """The number of axes of each output, sorted by name."""
        outputs = self.serve.get_concrete_function().structured_outputs
        return {name: x.shape.rank for name, x in sorted(outputs.items())}


Runner = Callable[..., dict[str, np.ndarray]]


@contextlib.contextmanager
def without_deprecation() -> Iterator[None]:
    """Suppresses the deprecation warning of `tf.lite.Interpreter`.

    Its successor, the package ai-edge-litert, runs the same models.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"\s*Warning: tf\.lite\.Interpreter"
        )
        yield


def signature_runner(model: bytes, *, num_threads: int = 1) -> Runner:
    """Returns a function that runs the only signature of a model.

    Args:
      model: the serialized model.
      num_threads: number of threads of the interpreter.
    """
    with without_deprecation():
        interpreter = tf.lite.Interpreter(
            model_content=model, num_threads=num_threads
        )
    runner = interpreter.get_signature_runner()

    def run(**inputs):
        # Copies, as the results are views of memory that the next call writes.
        return {name: np.array(x) for name, x in runner(**inputs).items()}

    return run


# A row of named inputs, each int32 [1, seq].
Example = Mapping[str, np.ndarray]

# Operations that stay float32 in "int8" models, as a single scale per tensor
# costs more accuracy there than in all matrix products
# (see docs/runtimes.md#quantization).
# ADD: the mask's -10000 takes the whole range of the attention scores. SOFTMAX
# and BATCH_MATMUL: steps of 1/256 are too coarse for attention to a hundred
# tokens. SUM, MAXIMUM and DIV: the mean over tokens. The others, except GELU
# and TANH, are LayerNorm.
_FLOAT_OPERATIONS = (
    "ADD",
    "SOFTMAX",
    "BATCH_MATMUL",
    "MEAN",
    "SQUARED_DIFFERENCE",
    "RSQRT",
    "SUB",
    "MUL",
    "GELU",
    "TANH",
    "SUM",
    "MAXIMUM",
    "DIV",
)


def convert(
    graph: ConstantGraph,
    quantization: str = "none",
    calibration: Sequence[Example] | None = None,
) -> bytes:
    """Converts a graph to a LiteRT model with the signature `serving_default`.

    It uses built-in operations only. Inputs are int32 and outputs float32 for
    any quantization:

    - "none": float32.
    - "float16": float16 weights, and float32 computation.
    - "dynamic": int8 matrices with a scale for each output; the rows that they
      are multiplied with are quantized at run time.
    - "int8": inputs and outputs of matrix products are quantized with scales
      found by calibration. The operations between them are float32.

    Args:
      graph: the graph to convert.
      quantization: see above.
      calibration: rows of equal length for "int8", read in order.
    """
    # The converter tracks what the function needs through an object.
    root = tf.Module()
    root.serve = graph.serve
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [graph.serve.get_concrete_function()], root
    )
    if quantization == "none":
        return converter.convert()
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if quantization == "int8":
        return _int8(converter, calibration or ())
    return converter.convert()


def _int8(
    converter: tf.lite.TFLiteConverter, calibration: Sequence[Example]
) -> bytes:
    def dataset():
        return map(dict, calibration)

    converter.representative_dataset = dataset
    # The only way to exclude operations from full integer quantization.
    options = tf.lite.experimental.QuantizationDebugOptions(
        denylisted_ops=list(_FLOAT_OPERATIONS)
    )
    with without_deprecation():
        debugger = tf.lite.experimental.QuantizationDebugger(
            converter=converter, debug_dataset=dataset, debug_options=options
        )
    return debugger.get_nondebug_quantized_model()
