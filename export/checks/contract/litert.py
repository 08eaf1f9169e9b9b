"""Checks of a model for LiteRT, run by the interpreter of TensorFlow."""

from __future__ import annotations

import hashlib
import zipfile

import numpy as np

from .exported import Exported
from .findings import Skipped, expect, expect_same
from .numbers import difference, relative_error, shown


def file(exported: Exported) -> str:
    """The file is the one that was written, bit by bit."""
    path = exported.path(exported.manifest["file"])
    with open(path, "rb") as opened:
        content = opened.read()
    digest = hashlib.sha256(content).hexdigest()
    expect_same(digest, exported.manifest["sha256"], "sha256")
    return f"{len(content):,} bytes, {digest[:12]}..."


def signature(exported: Exported) -> str:
    """`serving_default` has the inputs and outputs of `export.json`."""
    wanted = exported.manifest["signatures"]["serving_default"]
    found = exported.root.get_signature_list().get("serving_default")
    expect(found is not None, "there is no signature serving_default")
    expect_same(sorted(found["inputs"]), sorted(wanted["inputs"]), "inputs")
    expect_same(sorted(found["outputs"]), sorted(wanted["outputs"]), "outputs")
    return ", ".join(wanted["outputs"])


def runs(exported: Exported) -> str:
    """It runs, and two calls give the same finite numbers."""
    length = exported.manifest["seq_length"]
    names = exported.manifest["signatures"]["serving_default"]["inputs"]
    inputs = {name: np.ones([1, length], np.int32) for name in names}
    first, second = (_run(exported, inputs) for _ in range(2))
    for name, value in first.items():
        expect(np.isfinite(value).all(), f"{name} is not finite")
        expect(np.array_equal(value, second[name]), f"{name} changes")
    return f"rows of {length} tokens"


def associated_files(exported: Exported) -> str:
    """The vocabulary is inside the model, and the one of `export.json`."""
    tokenizer = exported.manifest["tokenizer"]
    with zipfile.ZipFile(exported.path(exported.manifest["file"])) as archive:
        names = sorted(archive.namelist())
        wanted = sorted(exported.manifest["associated_files"])
        expect_same(names, wanted, "associated files")
        content = archive.read(tokenizer["file"])
    digest = hashlib.sha256(content).hexdigest()
    expect_same(digest, tokenizer["fingerprint"], "sha256 of the vocabulary")
    return ", ".join(names)


def random_numbers(exported: Exported) -> str:
    """Random ids give what the source model makes of them."""
    return _compared(exported, "random")


def text_numbers(exported: Exported) -> str:
    """Real text gives what the source model makes of it."""
    return _compared(exported, "text")


def _compared(exported: Exported, name: str) -> str:
    wanted = exported.expected(name)
    quantization = exported.manifest["quantization"]
    names = exported.manifest["signatures"]["serving_default"]["inputs"]
    outputs = sorted(set(wanted) - set(names))
    rows = [
        _run(exported, {n: wanted[n][row : row + 1] for n in names})
        for row in range(len(wanted[names[0]]))
    ]
    found = {x: np.concatenate([row[x] for row in rows]) for x in outputs}
    if quantization != "none":
        gaps = [relative_error(found[x], wanted[x]) for x in outputs]
        raise Skipped(
            f"quantized, {quantization}: relative error {max(gaps):.2g}"
        )
    largest = max(difference(found[x], wanted[x], x) for x in outputs)
    return f"{', '.join(outputs)}; {shown(largest)}"


def _run(exported: Exported, inputs: dict) -> dict[str, np.ndarray]:
    found = exported.root.get_signature_runner()(**inputs)
    # Copies: results are views into memory that the next call writes.
    return {name: np.array(value) for name, value in found.items()}


CHECKS = {
    "sha256": file,
    "signature": signature,
    "runs": runs,
    "associated files": associated_files,
    "numbers: random ids": random_numbers,
    "numbers: real text": text_numbers,
}
