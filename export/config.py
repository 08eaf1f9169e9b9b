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
# Kinds that take token ids, for other runtimes than TensorFlow.
IDS_KINDS = ("litert", "onnx", "openvino")
# Setting -> the kinds that support it. All kinds support the other settings.
_SUPPORTED_BY = {
    "seq_length": ("preprocessor", "text_encoder", "task", *IDS_KINDS),
    "packed": ("encoder", "text_encoder", "task", "onnx", "openvino"),
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
        "Tokens per row: the default of a preprocessor, and the maximum of "
        "exports that take strings and of the tokenizer of ONNX and OpenVINO "
        "models. Defaults: the length that the model was trained with, for a "
        "preprocessor and a LiteRT encoder at most 128; for a task, that of "
        "its training.",
        bounds="[1, inf)",
    )
    packed: bool | None = setting(
        None,
        "Remove padding inside the model: for CPUs and GPUs, not for XLA. "
        "Defaults: no for an encoder, yes for a fine-tuned model and for "
        "exports that take strings.",
    )
    quantization: Quantization = setting(
        "none",
        "Quantization of a LiteRT, ONNX or OpenVINO model. float16: weights in "
        "float16. dynamic: weight matrices in int8, activations quantized at "
        "run time. int8, for LiteRT only: activations too, with ranges "
        "calibrated on --calibration_input.",
    )
    calibration_input: PathPatterns | None = setting(
        None,
        "Text for --quantization=int8, similar to that of the application: "
        "files or patterns separated by commas. One text per line, or two "
        "separated by a tab for tasks of pairs; question answering takes its "
        "own file format.",
    )
    calibration_examples: int = setting(
        100,
        "Number of examples to read from --calibration_input.",
        bounds="[1, inf)",
    )
    resizable: bool = setting(
        False, "Let a LiteRT model accept batches of any size and length."
    )
    license: str = setting(
        "", "License of the weights, for the model card: Apache-2.0, ..."
    )
    overwrite: bool = setting(
        False, "Replace a finished export in the output folder."
    )

    def __post_init__(self) -> None:
        check_settings(self)

    def is_packed(self, kind: str, *, task: bool = False) -> bool:
        """Returns whether an export removes padding: `packed` or its default.

        Args:
          kind: kind of the export.
          task: whether it has the head of a fine-tuned model.
        """
        if self.packed is not None:
            return self.packed
        return kind == "text_encoder" or (task and kind != "litert")

    def check_kind(self, kind: str) -> None:
        """Checks that a kind of export supports the settings.

        Raises:
          InputError: If the kind does not exist or does not support a setting.
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
