"""Checks of an export in a process without albert_tf.

`check_export` runs this file as a program: FOLDER RESULTS CASES.npz. It
imports the standard library, NumPy, TensorFlow and the export's runtime only.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import sys
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the operations of tokenizers.

# float32 sums in another order (XLA, fused or packed kernels) differ by about
# 1e-6 of the largest value; a wrong weight or another GELU shows above 1e-3.
TOLERANCE = 1e-4

# The largest relative errors of quantized models. 11 bits give 0.001; 8 bits of
# weights and of the rows they are multiplied with 0.01 to 0.1; another model
# 0.5. "int8" has no limit: random ids may leave the ranges of its calibration.
_ERRORS = {"float16": 0.01, "dynamic": 0.2}

_IDS = ("input_word_ids", "input_mask", "input_type_ids")
_TEXTS = ("A film, not bad: 1,000 of 12.", "", "Été " * 200)
# Kind -> signature -> inputs and outputs; export.json lists those of the other
# kinds.
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
    """There is nothing to judge; the message says why."""


def expect(condition: object, message: str) -> None:
    """Raises `Failed` unless the condition holds."""
    if not condition:
        raise Failed(message)


def expect_equal(found: object, expected: object, name: str) -> None:
    """Raises `Failed` unless two values are equal."""
    expect(found == expected, f"{name}: found {found}, expected {expected}")


def difference(found, expected, name: str, mask=None) -> float:
    """Returns the largest absolute difference of two arrays.

    It is relative to the largest expected value where that is above 1. Values
    that are not floating-point numbers have to be equal.

    Args:
      found, expected: the arrays.
      name: their name, for the error.
      mask: `[batch, seq]`, 0 where values are not compared; None: all are.

    Raises:
      Failed: shapes differ, or values differ by more than `TOLERANCE`.
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


def relative_error(found, expected) -> float:
    """Returns the norm of the difference over the norm of the expected.

    Of small values, over that of ones: a score near 0 has no relative error.
    """
    found, expected = (np.asarray(x, "float64") for x in (found, expected))
    expect_equal(list(found.shape), list(expected.shape), "shape")
    expect(np.isfinite(found).all(), "not finite")
    norm = max(np.linalg.norm(expected), np.sqrt(expected.size))
    return float(np.linalg.norm(found - expected) / norm)


def compare(found: Mapping, expected: Mapping, mask=None) -> float:
    """Returns the largest difference of outputs by name.

    Args:
      found, expected: the outputs, and what some of them should be.
      mask: `[batch, seq]`: 0 where `sequence_output` is not compared. Packed
        models return zeros for padding.

    Raises:
      Failed: see `difference`; or an output is missing.
    """
    expect(set(expected) <= set(found), f"outputs: {sorted(found)}")
    masks = {"sequence_output": mask}
    return max(
        difference(found[name], values, name, masks.get(name))
        for name, values in expected.items()
    )


def weights_fingerprint(weights: Mapping[str, np.ndarray]) -> str:
    """Returns the sha256 (hex) of named weights in any order.

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
    """Checks names and sha256 of an export's weights."""
    names = sorted(manifest["weights"])
    expect_equal(sorted(weights), names, "names")
    digest = weights_fingerprint(weights)
    expect_equal(digest, manifest["weights_sha256"], "sha256")
    count = sum(value.size for value in weights.values())
    return f"{count:,} parameters, {digest[:12]}..."


class SavedModel:
    """An exported SavedModel, and its checks: methods that return a figure."""

    def __init__(self, folder: str, manifest: Mapping):
        self._folder, self.manifest = folder, manifest
        self.runtime = f"TensorFlow {tf.__version__}"
        self._kind = manifest["kind"]
        self.root = tf.saved_model.load(folder)

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks."""
        weights = ("weights", "training") if "weights" in self.manifest else ()
        return ("signatures", "tokenizer", *weights)

    def call(self, endpoint: str, inputs: Mapping) -> dict[str, np.ndarray]:
        """Returns the outputs of a signature, of the object ("") or a part."""
        inputs = {name: tf.constant(x) for name, x in inputs.items()}
        if endpoint in self.root.signatures:
            outputs = self.root.signatures[endpoint](**inputs)
        else:
            function = getattr(self.root, endpoint) if endpoint else self.root
            takes_dict = self._kind in ("encoder", "task")
            outputs = function(inputs if takes_dict else inputs["text"])
        if isinstance(outputs, tf.RaggedTensor):
            outputs = {x: getattr(outputs, x) for x in ("values", "row_splits")}
        return {
            name: value.numpy()
            for name, value in outputs.items()
            if tf.is_tensor(value)
        }

    def weights(self) -> str:
        """Checks names and sha256 of the weights."""
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

    def signatures(self) -> str:
        """Checks names, and that signature and object return the same."""
        declared = _SIGNATURES.get(self._kind) or {
            name: (names["inputs"], names["outputs"])
            for name, names in self.manifest["signatures"].items()
        }
        examples = {}
        for name, (inputs, outputs) in declared.items():
            expect(name in self.root.signatures, f"signature {name} is missing")
            serve = self.root.signatures[name]
            specs, found = serve.structured_input_signature[1], {}
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
        """Checks the vocabulary's sha256, and `do_lower_case`."""
        tokenizer = self.manifest["tokenizer"]
        if tokenizer is None:
            raise Skipped("exported without a tokenizer")
        is_wordpiece = tokenizer["file"].endswith(".txt")
        name = "vocab_file" if is_wordpiece else "sp_model_file"
        expect(hasattr(self.root, name), f"{name} is missing")
        path = getattr(self.root, name).asset_path.numpy().decode()
        file = os.path.relpath(path, self._folder)
        expect(not file.startswith(".."), f"{name} is outside of it: {path}")
        expect(os.path.isfile(path), f"{file} is missing")
        expect_equal(_sha256(path), tokenizer["fingerprint"], f"sha256 {file}")
        if self._kind != "preprocessor":
            found = bool(self.root.do_lower_case.numpy())
            expect_equal(found, tokenizer["do_lower_case"], "do_lower_case")
        return file

    def _endpoints(self) -> list:
        """Returns the object and, of an encoder, its heads."""
        heads = [head for head in ("mlm", "sop") if self._kind == "encoder"]
        components = {name.split("/")[0] for name in self.manifest["weights"]}
        heads = [head for head in heads if f"{head}_head" in components]
        for head in heads:
            expect(hasattr(self.root, head), f".{head} is missing")
        return [self.root, *(getattr(self.root, head) for head in heads)]


class IdsModel:
    """A model for another runtime, with the same interface as `SavedModel`."""

    def __init__(self, folder: str, manifest: Mapping):
        self._folder, self.manifest = folder, manifest
        # Beside this file, which cannot import it as a part of albert_tf.
        path = os.path.join(os.path.dirname(__file__), "check_runtimes.py")
        load = runpy.run_path(path)["LOADERS"][manifest["kind"]]
        path = os.path.join(folder, manifest["file"])
        self.runtime, self.inputs, self._run, self._weights = load(path)

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks."""
        exact = self.manifest["quantization"] == "none"
        # Of several files, `check_export` checks it.
        sha256 = ("sha256",) if "sha256" in self.manifest else ()
        weights = ("weights",) if self._weights and exact else ()
        return (*sha256, "signatures", *weights)

    def call(self, endpoint: str, inputs: Mapping) -> dict[str, np.ndarray]:
        """Returns the outputs of the only signature."""
        del endpoint
        return self._run(inputs)

    def sha256(self) -> str:
        """Checks the sha256 of the only file, with the vocabulary inside."""
        digest = _sha256(os.path.join(self._folder, self.manifest["file"]))
        expect_equal(digest, self.manifest["sha256"], "sha256")
        return f"{digest[:12]}..."

    def signatures(self) -> str:
        """Checks names, and that two calls return the same numbers."""
        declared = self.manifest["signatures"]["serving_default"]
        found = sorted(self.inputs)
        expect_equal(found, sorted(declared["inputs"]), "inputs")
        ones = np.ones([1, self.manifest["seq_length"]], "int32")
        inputs = dict.fromkeys(found, ones)
        first, second = self.call("", inputs), self.call("", inputs)
        expect_equal(sorted(first), sorted(declared["outputs"]), "outputs")
        compare(first, second)
        return "serving_default"

    def weights(self) -> str:
        """Checks names and sha256 of the weights that the graph reads."""
        names = set(self.manifest["weights"])
        weights = {x: v for x, v in self._weights().items() if x in names}
        return check_weights(weights, self.manifest)


def _examples(spec: tf.TensorSpec) -> np.ndarray:
    """Returns three examples of an input."""
    if spec.dtype == tf.string:
        texts = np.array([text.encode() for text in _TEXTS], object)
        return texts if spec.shape.rank == 1 else np.stack([texts] * 2, axis=1)
    value = 0 if spec.name == "input_type_ids" else 1
    return np.full([len(_TEXTS), 5], value, "int32")


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def same_as_source(model, case: Mapping) -> str:
    """Checks that outputs are those of the source model, see `Case`."""
    inputs, expected = case["inputs"], case["outputs"]
    found = model.call(case["endpoint"], inputs)
    quantization = model.manifest.get("quantization", "none")
    if quantization != "none":
        expect(set(expected) <= set(found), f"outputs: {sorted(found)}")
        error = max(relative_error(found[x], expected[x]) for x in expected)
        names, limit = ", ".join(expected), _ERRORS.get(quantization)
        figure = f"{names}: relative error {error:.2g}"
        if limit is None:
            raise Skipped(f"{quantization} quantization, {figure}")
        expect(error <= limit, f"{figure}, more than {limit}")
        return f"{figure} (tolerance of {quantization}: {limit})"
    mask = inputs.get("input_mask", expected.get("input_mask"))
    largest = compare(found, expected, mask)
    names = ", ".join(expected)
    return f"{names}: max difference {largest:.1e} (tolerance {TOLERANCE})"


def read_cases(path: str) -> list[dict]:
    """Returns the cases that `reference.write_cases` has written."""
    cases: dict[str, dict] = {}
    with np.load(path) as file:
        for key, array in file.items():
            number, name, endpoint, part, array_name = key.split("/")
            case = {"name": name, "endpoint": endpoint}
            case = cases.setdefault(number, case)
            case.setdefault(part, {})[array_name] = array
    return list(cases.values())


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


def load_export(folder: str) -> SavedModel | IdsModel:
    """Loads an export."""
    with open(os.path.join(folder, "export.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    is_saved_model = "file" not in manifest
    return (SavedModel if is_saved_model else IdsModel)(folder, manifest)


def main(folder: str, results: str, cases: str) -> None:
    """Writes a line of JSON per check, and {} at the end."""
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
            for case in read_cases(cases):
                add(
                    f"source model: {case['name']}", same_as_source, model, case
                )
        print("{}", file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
