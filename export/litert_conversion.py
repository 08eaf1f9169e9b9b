"""Conversion of models to LiteRT, and quantization."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models.base import ENCODER_INPUTS, AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.model_graph import ModelGraph

Tensors = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class IdsProgram:
    """A function of rows of ids, and the model whose weights it reads.

    Attributes:
      model: the model with the weights.
      forward: maps such a model and its inputs by name to outputs by name; runs
        in a graph, without dropout.
      inputs: names of the inputs, each int32 `[batch, seq]`.
      seq_length: the length of a row; of a resizable program, the length of
        the calibration's rows.
      resizable: whether batches of any size and length are taken. Both are then
        unknowns of the graph, -1 in `shape_signature`, and interpreters compute
        the shapes when one is first seen. Otherwise a batch is one row.

    Raises:
      InputError: the model does not support `seq_length`.
    """

    model: AlbertModel
    forward: Callable[[AlbertModel, Tensors], Tensors]
    inputs: tuple[str, ...] = ENCODER_INPUTS
    seq_length: int = 128
    resizable: bool = False

    def __post_init__(self):
        longest = self.model.config.max_position_embeddings
        if not 2 <= self.seq_length <= longest:
            raise InputError(
                f"seq_length={self.seq_length} must be at least 2, to hold "
                f"[CLS] and [SEP], and at most {longest}, the model's "
                "max_position_embeddings"
            )


def encoder_program(
    model: AlbertEncoder, *, seq_length: int = 128, resizable: bool = False
) -> IdsProgram:
    """Returns the encoder: ids -> `sequence_output` and `pooled_output`.

    Args:
      model: the encoder; without a pooler there is no `pooled_output`.
      seq_length, resizable: see `IdsProgram`.
    """

    def forward(encoder, inputs):
        outputs = dict(encoder(inputs))
        del outputs["encoder_outputs"]
        return outputs

    return IdsProgram(
        model=model,
        forward=forward,
        seq_length=seq_length,
        resizable=resizable,
    )


class ConstantGraph(ModelGraph):
    """A program as a `tf.function` whose weights are constants.

    The converter folds what depends on constants only (the joint kernel of
    query, key and value), lays matrices out for `FULLY_CONNECTED`, and keeps
    one buffer of equal constants: so shared layers are stored once. Variables
    would stay variables, and their products would be `BATCH_MATMUL`s.

    Attributes:
      serve: the function, of keyword arguments; its only signature.

    Args:
      program: the program.
    """

    def __init__(self, program: IdsProgram):
        super().__init__(program.model, packed=False)
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


Runner = Callable[..., dict[str, np.ndarray]]


@contextlib.contextmanager
def without_deprecation() -> Iterator[None]:
    """Suppresses the deprecation warning of TensorFlow's interpreter.

    It moves to the package ai-edge-litert, which runs the same models.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"\s*Warning: tf\.lite\.Interpreter"
        )
        yield


def signature_runner(model: bytes, *, num_threads: int = 1) -> Runner:
    """Returns the function of a model's only signature.

    Args:
      model: the bytes of the model.
      num_threads: of the interpreter.
    """
    with without_deprecation():
        interpreter = tf.lite.Interpreter(
            model_content=model, num_threads=num_threads
        )
    runner = interpreter.get_signature_runner()

    def run(**inputs):
        # A copy: results are views into memory that the next call writes.
        return {name: np.array(x) for name, x in runner(**inputs).items()}

    return run


QUANTIZATIONS = ("none", "float16", "dynamic", "int8")

# A row of the inputs by name, each int32 [1, seq].
Example = Mapping[str, np.ndarray]

# Operations that stay float32 in "int8" models: with one scale for a whole
# tensor they do more harm than all matrix products. docs/exports.md has the
# measurements. ADD: the mask's -10000 in the scores takes the whole range;
# SOFTMAX: 1/256 is coarse for the attention to a hundred tokens, and so is the
# product with it, BATCH_MATMUL; the others but GELU and TANH: LayerNorm.
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
)


def check_quantization(quantization: str, calibration: object) -> None:
    """Checks a quantization and its calibration.

    Args:
      quantization: one of `QUANTIZATIONS`.
      calibration: rows, or the files to read them from; None or empty for
        none.

    Raises:
      InputError: there is no such quantization, or it requires calibration,
        or does not support it.
    """
    if quantization not in QUANTIZATIONS:
        raise InputError(
            f"quantization={quantization!r} must be one of "
            f"{', '.join(QUANTIZATIONS)}"
        )
    if quantization == "int8" and not calibration:
        raise InputError(
            "quantization=int8 requires calibration_input: text like that of "
            "the application, to find the ranges of activations"
        )
    if quantization != "int8" and calibration:
        raise InputError(
            f"quantization={quantization} does not support calibration_input "
            "(only int8)"
        )


def convert(
    graph: ConstantGraph,
    quantization: str = "none",
    calibration: Sequence[Example] | None = None,
) -> bytes:
    """Returns a LiteRT model with the signature `serving_default`.

    It has built-in operations only. Inputs are int32 and outputs float32,
    whatever the quantization:

    - "none": float32.
    - "float16": weights are float16, and computed with as float32.
    - "dynamic": matrices are int8 with a scale for each output; the rows that
      are multiplied with them are quantized when they are there.
    - "int8": those rows, and what comes out of the products, are quantized with
      scales found by calibration. All between the products is float32.

    Args:
      graph: what to convert.
      quantization: one of `QUANTIZATIONS`.
      calibration: rows for "int8", all of one length, read in their order.

    Raises:
      InputError: see `check_quantization`.
    """
    check_quantization(quantization, calibration)
    # The converter follows an object, and saves what the function needs.
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
    # The converter's one way to leave operations out of full quantization.
    options = tf.lite.experimental.QuantizationDebugOptions(
        denylisted_ops=list(_FLOAT_OPERATIONS)
    )
    with without_deprecation():
        debugger = tf.lite.experimental.QuantizationDebugger(
            converter=converter, debug_dataset=dataset, debug_options=options
        )
    return debugger.get_nondebug_quantized_model()
