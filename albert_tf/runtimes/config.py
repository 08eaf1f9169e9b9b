"""Names of the runtimes that compute models in Python."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, Literal, get_args

from albert_tf.errors import InputError
from albert_tf.optional_packages import import_packages
from albert_tf.settings import setting

Runtime = Literal["keras", "onnx", "openvino", "auto"]

# The packages of a runtime, in the order in which "auto" looks for them.
PACKAGES: Mapping[Runtime, tuple[str, ...]] = {
    "onnx": ("onnxruntime", "onnx", "tf2onnx"),
    "openvino": ("openvino", "onnx", "tf2onnx"),
}


def runtime_setting(default: Runtime = "keras") -> Any:
    """Returns the setting `runtime` of commands."""
    return setting(
        default,
        "Inference backend: keras, onnx (ONNX Runtime), openvino, or "
        "auto: onnx if it is installed, else openvino, else keras. Results "
        "are equal.",
    )


def choose_runtime(runtime: Runtime) -> Runtime:
    """Returns a runtime that is installed; see `Runtime`.

    "auto" is ONNX Runtime if it is installed, else OpenVINO, else Keras.

    Raises:
      InputError: if there is no such runtime, or it is not installed.
    """
    if runtime not in get_args(Runtime):
        raise InputError(
            f"runtime={runtime!r} must be one of {', '.join(get_args(Runtime))}"
        )
    if runtime == "auto":
        for name, packages in PACKAGES.items():
            if all(map(importlib.util.find_spec, packages)):
                return name
        return "keras"
    if runtime in PACKAGES:
        import_packages(PACKAGES[runtime], f"models with runtime={runtime}")
    return runtime
