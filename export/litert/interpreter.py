"""Runs LiteRT models with the interpreter that TensorFlow ships."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

Runner = Callable[..., dict[str, np.ndarray]]


@contextlib.contextmanager
def without_deprecation() -> Iterator[None]:
    """Drops the warning that TensorFlow's interpreter gives in the block.

    It moves to the package ai-edge-litert, which takes the same models.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"\s*Warning: tf\.lite\.Interpreter"
        )
        yield


def signature_runner(model: bytes, *, num_threads: int = 1) -> Runner:
    """Returns the function that a model's only signature describes.

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
