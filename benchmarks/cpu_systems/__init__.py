"""Table of the systems that `cpu_speed.py` compares.

The module that implements a system is only imported in its own process, so that
libraries do not share a process and Model Garden can have another Python.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

FORWARD = ("forward",)
TEXT = ("forward", "text")
TRAINING = ("forward", "step", "text", "finetune")

# Largest allowed relative error of outputs in the Euclidean norm.
TOLERANCES = {"float32": 1e-3, "bfloat16": 0.05, "int8": 0.3}


@dataclasses.dataclass(frozen=True)
class System:
    """A way to run ALBERT.

    Attributes:
      title: Name in reports.
      module: Module of its class in this package.
      factory: Name of the class, which is called with the model's folder, the
        number of threads, `precision` and `options`.
      precision: Precision of matrix products: "float32", "bfloat16" or "int8".
      kinds: Kinds of work that it can do, from `cpu_work.KINDS`.
      models: Formats of the model that it needs, from `models.MAKERS`.
      needs: Packages that it needs.
      options: Further arguments of the class.
      python: Environment variable with the path of another interpreter, and the
        default path in the repository.
    """

    title: str
    module: str
    factory: str
    precision: str
    kinds: tuple[str, ...] = FORWARD
    models: tuple[str, ...] = ("checkpoint",)
    needs: tuple[str, ...] = ()
    options: dict = dataclasses.field(default_factory=dict)
    python: tuple[str, str] | None = None

    @property
    def interpreter(self) -> str:
        """Path of the Python interpreter that runs it."""
        if self.python is None:
            return sys.executable
        variable, default = self.python
        return os.environ.get(variable, str(REPOSITORY / default))

    def absent(self) -> str:
        """Returns why it cannot run here, or ""."""
        if not pathlib.Path(self.interpreter).exists():
            return f"{self.interpreter} does not exist: `make model-garden`"
        missing = [x for x in self.needs if not importlib.util.find_spec(x)]
        if missing:
            return f"not installed: {', '.join(missing)}"
        return ""


def _ours(form: str, precision: str, **fields) -> System:
    names = {"call": "Keras", "saved_model": "SavedModel", "xla": "XLA"}
    return System(
        f"albert_tf, {names[form]}",
        "tensorflow_systems",
        "AlbertTf",
        precision,
        options={"form": form},
        **fields,
    )


def _huggingface(form: str, precision: str, **fields) -> System:
    return System(
        f"Hugging Face, {form}",
        "torch_systems",
        "HuggingFace",
        precision,
        options={"form": form},
        needs=("torch", "transformers"),
        **fields,
    )


def _onnx(title: str, precision: str, *models: str) -> System:
    return System(
        f"ONNX Runtime, {title}",
        "runtime_systems",
        "OnnxRuntime",
        precision,
        TEXT,
        models=("checkpoint", *models),
        needs=("onnx", "onnxruntime", "torch", "transformers"),
        options={"model": models[-1]},
    )


def _openvino(title: str, precision: str, *models: str) -> System:
    needs = ["onnx", "openvino", "torch", "transformers"]
    return System(
        f"OpenVINO, {title}",
        "runtime_systems",
        "OpenVino",
        precision,
        TEXT,
        models=("checkpoint", *models),
        needs=(*needs, *["nncf"] * (title == "NNCF")),
        options={"model": models[-1]},
    )


def _litert(quantization: str, precision: str) -> System:
    return System(
        f"LiteRT, {quantization}",
        "runtime_systems",
        "LiteRt",
        precision,
        options={"quantization": quantization},
    )


def _keras_hub(form: str) -> System:
    return System(
        f"KerasHub, {form}",
        "tensorflow_systems",
        "KerasHub",
        "float32",
        ("forward", "step") if form == "graph" else FORWARD,
        models=("checkpoint", "keras_hub"),
        needs=("keras_hub",),
        options={"form": form},
    )


def _rate(library: str, module: str, precision: str, **fields) -> System:
    return System(
        f"products of {library}",
        module,
        "ProductRate",
        precision,
        ("rate",),
        models=(),
        **fields,
    )


def _import(name: str, *needs: str) -> System:
    return System(
        f"import of {name}",
        "imports",
        "Import",
        "float32",
        ("imports",),
        models=(),
        needs=needs,
        options={"name": name},
    )


REFERENCE = "albert_tf_float32"
SYSTEMS: dict[str, System] = {
    REFERENCE: _ours("call", "float32", kinds=TRAINING),
    "albert_tf_bfloat16": _ours("call", "bfloat16", kinds=TRAINING),
    "saved_model_float32": _ours(
        "saved_model",
        "float32",
        kinds=TEXT,
        models=("checkpoint", "saved_model", "text_model"),
    ),
    "albert_tf_xla_float32": _ours("xla", "float32"),
    "albert_tf_xla_bfloat16": _ours("xla", "bfloat16"),
    "huggingface_float32": _huggingface("eager", "float32", kinds=TRAINING),
    "huggingface_bfloat16": _huggingface("eager", "bfloat16", kinds=TRAINING),
    "huggingface_compile_float32": _huggingface(
        "compile", "float32", kinds=("forward", "step")
    ),
    "huggingface_compile_bfloat16": _huggingface(
        "compile", "bfloat16", kinds=("forward", "step")
    ),
    "huggingface_int8": _huggingface("dynamic", "int8", kinds=TEXT),
    "onnxruntime_float32": _onnx("optimized", "float32", "onnx"),
    "onnxruntime_int8": _onnx("optimized", "int8", "onnx", "onnx_int8"),
    "onnx_export_float32": _onnx("our export", "float32", "onnx_export"),
    "onnx_export_int8": _onnx("our export", "int8", "onnx_export_dynamic"),
    "openvino_float32": _openvino("our export", "float32", "openvino"),
    "openvino_bfloat16": _openvino("our export", "bfloat16", "openvino"),
    "openvino_export_int8": _openvino("our export", "int8", "openvino_dynamic"),
    "openvino_int8": _openvino("NNCF", "int8", "openvino", "openvino_int8"),
    "litert_float32": _litert("none", "float32"),
    "litert_int8": _litert("dynamic", "int8"),
    "keras_hub_float32": _keras_hub("graph"),
    "keras_hub_xla_float32": _keras_hub("XLA"),
    "model_garden_float32": System(
        "Model Garden",
        "model_garden",
        "ModelGarden",
        "float32",
        models=("checkpoint", "google", "model_garden"),
        python=(
            "ALBERT_TF_MODEL_GARDEN_PYTHON",
            ".venv-model-garden/bin/python",
        ),
    ),
    "rate_tensorflow_float32": _rate(
        "TensorFlow", "tensorflow_systems", "float32"
    ),
    "rate_tensorflow_bfloat16": _rate(
        "TensorFlow", "tensorflow_systems", "bfloat16"
    ),
    "rate_torch_float32": _rate(
        "PyTorch", "torch_systems", "float32", needs=("torch",)
    ),
    "rate_torch_bfloat16": _rate(
        "PyTorch", "torch_systems", "bfloat16", needs=("torch",)
    ),
    "import_tensorflow": _import("tensorflow"),
    "import_albert_tf": _import("albert_tf:AlbertEncoder"),
    "import_huggingface": _import(
        "transformers:AlbertModel", "torch", "transformers"
    ),
}
# The default systems of `cpu_speed.py --short`.
SHORT = (REFERENCE, "huggingface_float32", "rate_torch_float32")
