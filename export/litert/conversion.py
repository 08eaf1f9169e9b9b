"""A program as the bytes of a LiteRT model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.litert.interpreter import without_deprecation
from albert_tf.export.litert.program import ConstantGraph

# Of weights, and of activations with the last one.
QUANTIZATIONS = ("none", "float16", "dynamic", "int8")

# A row of the inputs by name, each int32 [1, seq].
Example = Mapping[str, np.ndarray]

# What stays float32 in "int8" models: with one scale for a whole tensor they
# do more harm than all matrix products together. docs/exports.md has the
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
    """Checks that a quantization can be done, before it is.

    Args:
      quantization: one of `QUANTIZATIONS`.
      calibration: what there is to find the ranges of activations with: rows,
        or where they are to be read; None or empty: nothing.

    Raises:
      InputError: there is no such one, or it needs calibration, or calibration
        is given and not needed.
    """
    if quantization not in QUANTIZATIONS:
        raise InputError(
            f"quantization={quantization!r} must be one of "
            f"{', '.join(QUANTIZATIONS)}"
        )
    if quantization == "int8" and not calibration:
        raise InputError(
            "quantization=int8 needs calibration_input: text like that of the "
            "application, to find the ranges of activations with"
        )
    if quantization != "int8" and calibration:
        raise InputError(
            f"quantization={quantization} has no use for calibration_input; "
            "leave it out, or choose int8"
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
        return _int8(converter, _generator(calibration))
    return converter.convert()


def _generator(calibration: Sequence[Example]) -> Callable[[], Iterator]:
    def generate():
        for example in calibration:
            yield dict(example)

    return generate


def _int8(
    converter: tf.lite.TFLiteConverter, dataset: Callable[[], Iterator]
) -> bytes:
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
