"""Kinds and settings of exports."""

from __future__ import annotations

import dataclasses
import os
from typing import Literal, get_args

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns
from albert_tf.finetuning.config import TaskModuleConfig
from albert_tf.settings import check_settings, described, setting

Kind = Literal[
    "encoder",
    "preprocessor",
    "text_encoder",
    "task",
    "litert",
    "onnx",
    "openvino",
    "web",
]
# Of the folder of an ONNX export.
Layout = Literal["flat", "huggingface"]
Quantization = Literal["none", "float16", "dynamic", "int8"]
KINDS, QUANTIZATIONS = get_args(Kind), get_args(Quantization)
# Kinds that take token ids, for other runtimes than TensorFlow.
IDS_KINDS = ("litert", "onnx", "openvino")
# Setting -> the kinds that support it. All kinds support the other settings.
_SUPPORTED_BY = {
    "seq_length": ("preprocessor", "text_encoder", "task", *IDS_KINDS, "web"),
    "packed": ("encoder", "text_encoder", "task", "onnx", "openvino"),
    "layout": ("onnx",),
    "quantization": IDS_KINDS,
    "calibration_input": ("litert",),
    "calibration_examples": ("litert",),
    "resizable": ("litert",),
    "web_packages": ("web",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig(TaskModuleConfig):
    """Settings of an export: flags of `albert export`."""

    model: str | os.PathLike[str] = dataclasses.field(
        metadata=described(
            "A pretraining run or any checkpoint that `albert convert` takes, "
            "such as albert_tiny_en; with --kind=task, any model that `albert "
            "predict` takes. With --check, the model to compare the export "
            "with."
        )
    )
    output: str | os.PathLike[str] = dataclasses.field(
        metadata=described("Output folder.")
    )
    kind: Kind = setting(
        "encoder",
        "encoder: ids to vectors. preprocessor: strings to ids. text_encoder: "
        "strings to vectors. task: a fine-tuned model, strings to labels or "
        "answers. litert, onnx, openvino: a fine-tuned model or the encoder, "
        "from ids, for TensorFlow Lite, ONNX Runtime or OpenVINO. web: a page "
        "that runs the model in the browser.",
    )
    seq_length: int | None = setting(
        None,
        "Tokens per row: the default of a preprocessor, and the maximum of "
        "exports that take strings and of the tokenizer of ONNX and OpenVINO "
        "models. Defaults: the length that the model was trained with or, if "
        "that is less, the max_seq_length of its sentence-transformers folder; "
        "for a preprocessor and a LiteRT encoder at most 128; for a task, that "
        "of its training.",
        bounds="[1, inf)",
    )
    packed: bool | None = setting(
        None,
        "Remove padding inside the model: for CPUs and GPUs, not for XLA. "
        "Defaults: no for an encoder, yes for a fine-tuned model, except "
        "with --layout=huggingface, and for exports that take strings.",
    )
    layout: Layout = setting(
        "flat",
        "Layout of an ONNX export. huggingface: files and names for "
        "transformers.js and optimum, with a float32 and an int8 model; a "
        "pretrained model keeps its head for masked words.",
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
    web_packages: str | os.PathLike[str] | None = setting(
        None,
        "Folder node_modules with @huggingface/tokenizers and onnxruntime-web, "
        "the scripts of a web page. By default npm fetches them.",
    )
    license: str = setting(
        "", "License of the weights, for the model card: Apache-2.0, ..."
    )
    overwrite: bool = setting(
        False, "Replace a finished export in the output folder."
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.quantization == "int8" and self.kind in ("onnx", "openvino"):
            raise InputError(
                f"quantization=int8 is not supported by kind={self.kind} (only "
                "by litert); use quantization=dynamic, 8 bits without "
                "calibration"
            )
        if self.layout == "huggingface":
            for name in ("packed", "quantization"):
                if (value := getattr(self, name)) not in (None, "none", False):
                    raise InputError(
                        f"{name}={value} is not supported by "
                        "layout=huggingface, which has a float32 and an int8 "
                        "model, both with padding; remove it"
                    )
        for field in dataclasses.fields(self):
            kinds = _SUPPORTED_BY.get(field.name, KINDS)
            value = getattr(self, field.name)
            if value != field.default and self.kind not in kinds:
                raise InputError(
                    f"{field.name} is not supported by kind={self.kind} (only "
                    f"by {', '.join(kinds)})"
                )
        check_calibration(self.quantization, self.calibration_input)

    def is_packed(self, *, task: bool = False) -> bool:
        """Returns whether an export removes padding: `packed` or its default.

        Args:
          task: whether it has the head of a fine-tuned model.
        """
        if self.packed is not None:
            return self.packed
        if self.layout == "huggingface":
            return False  # For GPUs in browsers.
        return self.kind == "text_encoder" or (task and self.kind != "litert")


def check_calibration(quantization: Quantization, calibration: object) -> None:
    """Raises an `InputError` unless int8, and only int8, is calibrated.

    Args:
      quantization: the quantization.
      calibration: calibration rows or files; None or empty without calibration.
    """
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
