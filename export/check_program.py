"""Checks of an export, run in a process that cannot import albert_tf.

Usage: check_program.py FOLDER RESULTS CASES

Imports NumPy, TensorFlow, TensorFlow Text and the runtime of the export only.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the ops of tokenizers.

# float32 sums in another order change outputs by 1e-6 of the largest value, a
# wrong weight or activation by more than 1e-3.
TOLERANCE = 1e-4

# Largest relative errors of quantized models: "float16" gives 0.001, "dynamic"
# 0.01 to 0.1, the weights of another model 0.5. "int8" has no limit, as random
# ids may leave the ranges of its calibration.
_QUANTIZED_TOLERANCE = {"float16": 0.01, "dynamic": 0.2}

_IDS = ("input_word_ids", "input_mask", "input_type_ids")
_TEXTS = ("A film, not bad: 1,000 of 12.", "", "Été " * 200)
# Kind -> signature -> (inputs, outputs), for the kinds whose export.json does
# not list them.
_SIGNATURES = {
    "encoder": {
        "serving_default": (_IDS, ("pooled_output", "sequence_output"))
    },
    "preprocessor": {"serving_default": (("text",), _IDS)},
    "text_encoder": {
        "serving_default": (("text",), ("mean_output", "pooled_output")),
        "sequence": (("text",), ("sequence_output", *_IDS)),
    },
}


class Failed(Exception):
    """A check failed; the message says why."""


class Skipped(Exception):
    """A check does not apply; the message says why."""


def expect(condition: object, message: str) -> None:
    """Raises `Failed` with the message unless the condition holds."""
    if not condition:
        raise Failed(message)


def expect_equal(found: object, expected: object, name: str) -> None:
    """Raises `Failed` unless the two values are equal."""
    expect(found == expected, f"{name}: found {found}, expected {expected}")


def difference(found, expected, name: str, mask=None) -> float:
    """Returns the largest absolute difference where `mask` is 1.

    It is divided by the largest expected value if that is above 1. Arrays of
    integers or strings must be equal. `mask` is `[batch, seq]` or None.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    expect_equal(list(found.shape), list(expected.shape), f"shape of {name}")
    if found.dtype.kind != "f":
        expect(np.array_equal(found, expected), f"{name}: values differ")
        return 0.0
    expect(np.isfinite(found).all(), f"{name}: not finite")
    differences = np.abs(found.astype("float64") - expected)
    if mask is not None:
        differences = differences[np.asarray(mask) == 1]
    largest = float(np.max(differences, initial=0))
    largest /= max(1.0, float(np.max(np.abs(expected), initial=0)))
    message = f"{name}: differs by {largest:.2g}, more than {TOLERANCE}"
    expect(largest <= TOLERANCE, message)
    return largest


def compare(found: Mapping, expected: Mapping, mask=None) -> float:
    """Returns the largest `difference` of the outputs named in `expected`.

    `mask`, `[batch, seq]`, applies to `sequence_output`, where packed models
    return zeros for padding.
    """
    expect(set(expected) <= set(found), f"outputs: {sorted(found)}")
    return max(
        difference(found[x], y, x, mask if x == "sequence_output" else None)
        for x, y in expected.items()
    )


def relative_error(found, expected) -> float:
    """Returns the norm of the difference, relative to that of `expected`.

    Expected values are taken to be 1 on average at least: a score near 0 has no
    meaningful relative error.
    """
    found, expected = (np.asarray(x, "float64") for x in (found, expected))
    expect_equal(list(found.shape), list(expected.shape), "shape")
    expect(np.isfinite(found).all(), "not finite")
    norm = max(np.linalg.norm(expected), np.sqrt(expected.size))
    return float(np.linalg.norm(found - expected) / norm)


def weights_fingerprint(weights: Mapping[str, np.ndarray]) -> str:
    """Returns the sha256 of named weights, in any order, as hex digits.

    For each name in sorted order, the line `<name> <dtype> <shape>` (such as
    `sop_head/bias float32 [2]`) and a line feed are hashed, then the values as
    little-endian bytes in C order.
    """
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        value = np.ascontiguousarray(value)
        header = f"{name} {value.dtype.name} {list(value.shape)}\n"
        digest.update(header.encode("utf-8"))
        digest.update(value.astype(value.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def check_weights(weights: Mapping[str, np.ndarray], manifest: Mapping) -> str:
    """Checks the names and the sha256 of an export's weights."""
    expect_equal(sorted(weights), sorted(manifest["weights"]), "names")
    digest = weights_fingerprint(weights)
    expect_equal(digest, manifest["weights_sha256"], "sha256")
    count = sum(value.size for value in weights.values())
    return f"{count:,} parameters, {digest[:12]}..."


class SavedModel:
    """A loaded SavedModel. Its checks are methods that return a figure."""

    def __init__(self, folder: str, manifest: Mapping):
        self._folder, self.manifest = folder, manifest
        self.runtime = f"TensorFlow {tf.__version__}"
        self._kind = manifest["kind"]
        self.root = tf.saved_model.load(folder)
        self.checks = ["signatures", "tokenizer"]
        if "weights" in manifest:
            self.checks += ["weights", "training"]

    def call(self, endpoint: str, inputs: Mapping) -> dict[str, np.ndarray]:
        """Calls a signature, the object itself ("") or one of its functions."""
        inputs = {name: tf.constant(x) for name, x in inputs.items()}
        if endpoint in self.root.signatures:
            outputs = self.root.signatures[endpoint](**inputs)
        else:
            function = getattr(self.root, endpoint) if endpoint else self.root
            takes_dict = self._kind in ("encoder", "task")
            outputs = function(inputs if takes_dict else inputs["text"])
        if isinstance(outputs, tf.RaggedTensor):
            outputs = {x: getattr(outputs, x) for x in ("values", "row_splits")}
        tensors = {x: y for x, y in outputs.items() if tf.is_tensor(y)}
        return {name: value.numpy() for name, value in tensors.items()}

    def signatures(self) -> str:
        """Checks their names, and that the object returns the same outputs."""
        declared = _SIGNATURES.get(self._kind) or {
            name: (names["inputs"], names["outputs"])
            for name, names in self.manifest["signatures"].items()
        }
        examples = {}
        for name, (inputs, outputs) in declared.items():
            expect(name in self.root.signatures, f"signature {name} is missing")
            serve = self.root.signatures[name]
            specs = serve.structured_input_signature[1]
            expect_equal(sorted(specs), sorted(inputs), f"inputs of {name}")
            found = sorted(serve.structured_outputs)
            expect_equal(found, sorted(outputs), f"outputs of {name}")
            if name == "serving_default":
                examples = {x: _examples(spec) for x, spec in specs.items()}
        served = self.call("serving_default", examples)
        for name, value in served.items():
            expect_equal(len(value), len(_TEXTS), f"batch of {name}")
        compare(self.call("", examples), served)
        return ", ".join(declared)

    def tokenizer(self) -> str:
        """Checks the sha256 of the vocabulary, and `do_lower_case`."""
        tokenizer = self.manifest["tokenizer"]
        if tokenizer is None:
            raise Skipped("exported without a tokenizer")
        wordpiece = tokenizer["file"].endswith(".txt")
        name = "vocab_file" if wordpiece else "sp_model_file"
        expect(hasattr(self.root, name), f"{name} is missing")
        path = getattr(self.root, name).asset_path.numpy().decode()
        file = os.path.relpath(path, self._folder)
        expect(not file.startswith(".."), f"{name} is outside of it: {path}")
        expect(os.path.isfile(path), f"{file} is missing")
        with open(path, "rb") as asset:
            digest = hashlib.sha256(asset.read()).hexdigest()
        expect_equal(digest, tokenizer["fingerprint"], f"sha256 {file}")
        if self._kind != "preprocessor":
            found = bool(self.root.do_lower_case.numpy())
            expect_equal(found, tokenizer["do_lower_case"], "do_lower_case")
        return file

    def weights(self) -> str:
        """Checks the names and the sha256 of the weights."""
        weights = {
            variable.name.removesuffix(":0"): variable.numpy()
            for endpoint in self._endpoints()
            for variable in endpoint.variables
        }
        return check_weights(weights, self.manifest)

    def training(self) -> str:
        """Checks the argument `training` and the trainable variables."""
        for endpoint in self._endpoints():
            traces = endpoint.__call__.concrete_functions
            found = {x.structured_input_signature[0][1] for x in traces}
            expect_equal(found, {False, True}, "traced values of training")
            names = [variable.name for variable in endpoint.variables]
            found = [variable.name for variable in endpoint.trainable_variables]
            expect_equal(found, names, "trainable_variables")
            expect_equal(list(endpoint.regularization_losses), [], "losses")
        expect(hasattr(self.root, "call_training"), "call_training is missing")
        return f"{len(self.root.variables)} trainable variables"

    def _endpoints(self) -> list:
        """Returns the loaded object and the heads that it has."""
        heads = [x for x in ("mlm", "sop") if hasattr(self.root, x)]
        return [self.root, *(getattr(self.root, head) for head in heads)]


def _examples(spec: tf.TensorSpec) -> np.ndarray:
    """Returns three example values for an input."""
    if spec.dtype == tf.string:
        texts = np.array([text.encode() for text in _TEXTS], object)
        return texts if spec.shape.rank == 1 else np.stack([texts] * 2, axis=1)
    value = 0 if spec.name == "input_type_ids" else 1
    return np.full([len(_TEXTS), 5], value, "int32")


class IdsModel:
    """A model for another runtime, with the interface of `SavedModel`."""

    def __init__(self, folder: str, manifest: Mapping):
        self.manifest, kind = manifest, manifest["kind"]
        self._path = os.path.join(folder, manifest["file"])
        declared = manifest["signatures"]["serving_default"]
        names = {*declared["inputs"], *declared["outputs"]}
        load = _RUNTIMES[kind]
        self.runtime, self.inputs, self._run = load(self._path, names)
        self.checks = ["signatures"]
        if kind == "onnx" and manifest["quantization"] == "none":
            self.checks.append("weights")
        if manifest.get("layout") == "huggingface":
            name = "onnx/model_quantized.onnx"
            self._quantized = load(os.path.join(folder, name), names)[2]
            self.checks.append("quantized")

    def call(self, endpoint: str, inputs: Mapping) -> dict[str, np.ndarray]:
        """Returns the outputs of the only signature, or those in MediaPipe."""
        if endpoint == "mediapipe":
            return self._run_in_mediapipe(inputs["text"])
        return self._run(inputs)

    def _run_in_mediapipe(self, texts) -> dict[str, np.ndarray]:
        try:
            from mediapipe.tasks.python import text as tasks
        except ImportError:
            raise Skipped("MediaPipe is not installed") from None
        task, rows = getattr(tasks, self.manifest["mediapipe_task"]), []
        with task.create_from_model_path(self._path) as model:
            for text in map(bytes.decode, texts):
                if task is tasks.TextEmbedder:
                    rows.append(model.embed(text).embeddings[0].embedding)
                    continue
                (head,) = model.classify(text).classifications
                scores = {x.index: x.score for x in head.categories}
                rows.append([scores[x] for x in sorted(scores)])
        outputs = self.manifest["signatures"]["serving_default"]["outputs"]
        return {min(outputs): np.array(rows, "float32")}

    def signatures(self) -> str:
        """Checks their names, and that two calls return the same numbers."""
        declared = self.manifest["signatures"]["serving_default"]
        expect_equal(sorted(self.inputs), sorted(declared["inputs"]), "inputs")
        ones = np.ones([1, self.manifest["seq_length"]], "int32")
        inputs = dict.fromkeys(self.inputs, ones)
        first, second = self._run(inputs), self._run(inputs)
        expect_equal(sorted(first), sorted(declared["outputs"]), "outputs")
        compare(first, second)
        return "serving_default"

    def quantized(self) -> str:
        """Compares the 8-bit model of Hugging Face's layout with the other."""
        shape = [2, self.manifest["seq_length"]]
        size = self.manifest["config"]["vocab_size"]
        inputs = dict.fromkeys(self.inputs, np.ones(shape, "int32"))
        inputs |= {
            "input_ids": np.random.default_rng(0).integers(0, size, shape),
            "token_type_ids": np.zeros(shape, "int32"),
        }
        outputs, found = self._run(inputs), self._quantized(inputs)
        error = max(relative_error(found[x], y) for x, y in outputs.items())
        limit = _QUANTIZED_TOLERANCE["dynamic"]
        expect(error <= limit, f"differs by {error:.2g}, more than {limit}")
        return f"onnx/model_quantized.onnx: relative error {error:.2g}"

    def weights(self) -> str:
        """Checks the names and the sha256 of the weights in an ONNX graph."""
        import onnx

        weights = {
            x.name: onnx.numpy_helper.to_array(x)
            for x in onnx.load(self._path).graph.initializer
            if x.name in self.manifest["weights"]
        }
        return check_weights(weights, self.manifest)


def _litert(path: str, _):
    signature = tf.lite.Interpreter(path).get_signature_runner()

    def run(inputs):
        rows = []
        for row in range(len(next(iter(inputs.values())))):
            outputs = signature(**{x: inputs[x][row : row + 1] for x in inputs})
            # Copies, as the next call overwrites the results.
            rows.append({name: np.array(x) for name, x in outputs.items()})
        return {x: np.concatenate([row[x] for row in rows]) for x in rows[0]}

    return f"TensorFlow {tf.__version__}", [*signature.get_input_details()], run


def _onnx_runtime(path: str, _):
    import onnxruntime

    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(path, providers=providers)
    names = [x.name for x in session.get_outputs()]
    # Name -> "int32" or "int64".
    types = {x.name: x.type[len("tensor(") : -1] for x in session.get_inputs()}

    def run(inputs):
        inputs = {x: np.asarray(y, types[x]) for x, y in inputs.items()}
        return dict(zip(names, session.run(names, inputs), strict=True))

    runtime = f"ONNX Runtime {onnxruntime.__version__}"
    return runtime, [*types], run


def _openvino(path: str, names: set[str]):
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32"}  # whatever the CPU supports
    model = openvino.Core().compile_model(path, "CPU", options)

    def name_of(port):
        # Other names are those of tensors that OpenVINO has merged.
        return min(port.names & names or port.names)

    def run(inputs):
        results = model(dict(inputs))
        return {name_of(x): results[x] for x in model.outputs}

    runtime = f"OpenVINO {openvino.__version__.partition('-')[0]}"
    return runtime, [name_of(x) for x in model.inputs], run


# Kind -> a function from the path of a model and the names of its signature to
# the runtime's name, the inputs' names, and a function from inputs to outputs.
_RUNTIMES = {
    "litert": _litert,
    "onnx": _onnx_runtime,
    "openvino": _openvino,
    "web": _onnx_runtime,
}


def load_export(folder: str) -> SavedModel | IdsModel:
    """Loads an export in its runtime."""
    with open(os.path.join(folder, "export.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    model = IdsModel if manifest["kind"] in _RUNTIMES else SavedModel
    return model(folder, manifest)


def same_as_source(model, endpoint: str, inputs: Mapping, expected: Mapping):
    """Checks that an endpoint returns what the source model does."""
    found, names = model.call(endpoint, inputs), ", ".join(expected)
    quantization = model.manifest.get("quantization", "none")
    if quantization == "none":
        mask = inputs.get("input_mask", expected.get("input_mask"))
        largest = compare(found, expected, mask)
        return f"{names}: max difference {largest:.1e} (tolerance {TOLERANCE})"
    error = max(relative_error(found[x], expected[x]) for x in expected)
    limit = _QUANTIZED_TOLERANCE.get(quantization)
    figure = f"{names}: relative error {error:.2g}"
    if limit is None:
        raise Skipped(f"{quantization} quantization, {figure}")
    expect(error <= limit, f"{figure}, more than {limit}")
    return f"{figure} (tolerance of {quantization}: {limit})"


def run_check(name: str, check, *arguments) -> dict[str, str]:
    """Runs a check; returns its name, result and figure."""
    try:
        result, figure = "pass", check(*arguments)
    except Skipped as reason:
        result, figure = "skip", str(reason)
    except Failed as error:
        result, figure = "FAIL", str(error)
    except Exception as error:
        result, figure = "FAIL", f"{type(error).__name__}: {error}"
    figure = " ".join(figure.split())
    return {"name": name, "result": result, "figure": figure[:200]}


def main(folder: str, results: str, cases: str) -> None:
    """Writes a line of JSON for each check, and {} after the last one."""
    model = None

    def load():
        nonlocal model
        model = load_export(folder)
        return f"{model.runtime}, without albert_tf"

    with open(results, "w", encoding="utf-8") as file:

        def add(*check):
            # Flushed, so that a crash does not lose it.
            print(json.dumps(run_check(*check)), file=file, flush=True)

        add("loads", load)
        if model is not None:
            for name in model.checks:
                add(name, getattr(model, name))
            with open(cases, "rb") as stored:
                for name, *case in pickle.load(stored):
                    add(f"source model: {name}", same_as_source, model, *case)
        print("{}", file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
