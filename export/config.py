"""Kinds and settings of exports."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns
from albert_tf.settings import check_settings, setting

Kind = Literal[
    "encoder",
    "preprocessor",
    "text_encoder",
    "task",
    "litert",
    "onnx",
    "openvino",
]
Quantization = Literal["none", "float16", "dynamic", "int8"]
KINDS = get_args(Kind)
# Of ids, for other runtimes than TensorFlow.
IDS_KINDS = ("litert", "onnx", "openvino")
# Setting -> the kinds that support it; all kinds support the others.
_SUPPORTED_BY = {
    "seq_length": ("preprocessor", "text_encoder", "task", *IDS_KINDS),
    "packed": ("encoder", "text_encoder", "task"),
    "quantization": IDS_KINDS,
    "calibration_input": ("litert",),
    "calibration_examples": ("litert",),
    "resizable": ("litert",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Settings of an export: flags of `albert export`."""

    seq_length: int | None = setting(
        None,
        "Sequence length: default of a preprocessor, maximum of exports that "
        "take strings and of the tokenizers of ONNX and OpenVINO models. "
        "Default: 128 for a preprocessor and a LiteRT encoder; the model's "
        "maximum for other encoders; that of the training for a task.",
        bounds="[1, inf)",
    )
    packed: bool | None = setting(
        None,
        "Remove padding inside the model: faster on CPUs and GPUs, not "
        "possible with XLA. Default: no for an encoder, yes for exports that "
        "take strings.",
    )
    quantization: Quantization = setting(
        "none",
        "Quantization of a LiteRT, ONNX or OpenVINO model. none: float32. "
        "float16: weights in float16. dynamic: weights in int8, activations "
        "quantized at run time. int8 (LiteRT): weights and activations in "
        "int8, with ranges from --calibration_input.",
    )
    calibration_input: PathPatterns | None = setting(
        None,
        "Representative text for --quantization=int8: comma-separated files or "
        "glob patterns with one text per line, or two separated by a tab for "
        "pairs; for question answering, files of the task.",
    )
    calibration_examples: int = setting(
        100,
        "Number of examples of --calibration_input to use, from the first.",
        bounds="[1, inf)",
    )
    resizable: bool = setting(
        False, "Make a LiteRT model accept any batch size and length."
    )
    licence: str = setting(
        "", "Licence of the weights for the model card, such as Apache-2.0."
    )
    overwrite: bool = setting(
        False, "Replace an existing export in the output folder."
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def check_kind(self, kind: str) -> None:
        """Checks that a kind of export supports the settings.

        Raises:
          InputError: there is no such kind, or it does not support a setting.
        """
        if kind not in KINDS:
            raise InputError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
        if self.quantization == "int8" and kind in ("onnx", "openvino"):
            raise InputError(
                f"quantization=int8 is not supported by kind={kind} (only by "
                "litert); use quantization=dynamic, 8 bits without calibration"
            )
        for field in dataclasses.fields(self):
            kinds = _SUPPORTED_BY.get(field.name, KINDS)
            value = getattr(self, field.name)
            if value != field.default and kind not in kinds:
                raise InputError(
                    f"{field.name} is not supported by kind={kind} (only by "
                    f"{', '.join(kinds)})"
                )
