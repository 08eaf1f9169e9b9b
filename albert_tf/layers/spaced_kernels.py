"""Kernels whose rows do not share cache lines, for inference on CPUs.

oneDNN multiplies up to about 290 rows of tokens with a kernel as it lies in
memory. If the rows of the kernel are a multiple of 4 KiB apart, as those of
1024 or 3072 columns in float32 are, they are all mapped to the same few lines
of the cache, and the product takes up to twice as long. A few columns of zeros
avoid this (figures: benchmarks/NOTES.md). They are appended in each call, since
checkpoints and exports have kernels without them, which pays off for kernels
that several layers share. In lower precision nothing is appended, but a kernel
is cast from float32 once, and not in each layer.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

# Columns to append. Sixteen are one cache line of float32, and the smallest
# number that is a multiple of every vector's width.
_COLUMNS = 16
_PAGE = 4096


def is_applicable(training: bool) -> bool:
    """Returns whether kernels should be read once, and spaced.

    They are for inference with TensorFlow where there is no accelerator. In
    training, steps have more rows, and gradients are summed in float32.
    """
    if training or keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return all(x.device_type == "CPU" for x in tf.config.list_logical_devices())


def space(kernel: Any, bias: Any) -> tuple[Any, Any]:
    """Appends columns of zeros where rows are a multiple of 4 KiB apart.

    Args:
      kernel: `[features, units]`; returned as it is if not float32.
      bias: `[units]`.

    Returns:
      Kernel and bias, with `units` or more columns.
    """
    import tensorflow as tf

    # A tensor, as Keras casts a variable whenever it is used.
    kernel, bias = map(tf.convert_to_tensor, (kernel, bias))
    if kernel.dtype != "float32" or kernel.shape[1] * 4 % _PAGE:
        return kernel, bias
    kernel = ops.pad(kernel, ((0, 0), (0, _COLUMNS)))
    return kernel, ops.pad(bias, ((0, _COLUMNS),))


def append_rows(kernel: Any, features: int) -> Any:
    """Appends rows of zeros, up to a number of features."""
    missing = features - kernel.shape[0]
    return ops.pad(kernel, ((0, missing), (0, 0))) if missing else kernel


def first_columns(x: Any, size: int) -> Any:
    """Returns the first `size` numbers of the last axis."""
    return x if x.shape[-1] == size else x[..., :size]
