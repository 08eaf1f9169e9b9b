"""Checks of a fine-tuned model: strings in, answers out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from . import strings, tokenizer, weights
from .dropout import dropout
from .exported import Exported
from .findings import Skipped, expect, expect_same
from .numbers import difference


def signatures(exported: Exported) -> str:
    """Signatures have the names of `export.json`; the object gives the same."""
    declared = exported.manifest["signatures"]
    for name, names in declared.items():
        serve = exported.signature(name)
        _, found = serve.structured_input_signature
        expect_same(sorted(found), sorted(names["inputs"]), f"inputs of {name}")
    inputs = _inputs(exported)
    found = exported.signature()(**inputs)
    outputs = declared["serving_default"]["outputs"]
    figure = strings.same_outputs(
        found, exported.root(inputs), outputs, "serving_default"
    )
    return f"{', '.join(declared)}; {figure}"


def outputs(exported: Exported) -> str:
    """There is an answer for every example, finite where it is a number."""
    count = len(strings.TEXTS)
    found = exported.root(_inputs(exported))
    for name, value in found.items():
        expect_same(value.shape[0], count, f"answers in {name}")
        if value.dtype.is_floating:
            expect(np.isfinite(value).all(), f"{name} is not finite")
    if "probabilities" in found:
        sums = tf.reduce_sum(found["probabilities"], -1).numpy()
        # Those of padding are zeros.
        sums = sums[sums > 0]
        difference(sums, np.ones_like(sums), "sum of probabilities")
    return ", ".join(sorted(found))


def empty_batch(exported: Exported) -> str:
    """A batch without examples gives none."""
    found = exported.root(_inputs(exported, 0))
    for name, value in found.items():
        expect_same(value.shape[0], 0, f"answers in {name}")
    return ""


def labels(exported: Exported) -> str:
    """The names of the labels can be asked for."""
    wanted = exported.manifest["task"].get("labels")
    if not wanted:
        raise Skipped("the task has none")
    found = [label.decode() for label in exported.root.labels().numpy()]
    expect_same(found, list(wanted), "labels")
    return ", ".join(found[:8])


def dropout_off_on(exported: Exported) -> str:
    """Dropout is off, and on if it is asked for."""
    inputs = _inputs(exported)
    floats = [
        name
        for name, value in exported.root(inputs).items()
        if value.dtype.is_floating
    ]
    name = "logits" if "logits" in floats else min(floats)
    return dropout(exported, inputs, name, has_head=True)


def text_numbers(exported: Exported) -> str:
    """Answers to real text are those of the source model."""
    wanted = exported.expected("text")
    declared = exported.manifest["signatures"]["serving_default"]
    found = exported.signature()(
        **{name: tf.constant(wanted[name]) for name in declared["inputs"]}
    )
    names = sorted(set(wanted) - set(declared["inputs"]))
    figure = strings.same_outputs(
        {name: found[name] for name in names}, wanted, names, "real text"
    )
    return f"{', '.join(names)}; {figure}"


def _inputs(exported: Exported, count: int = len(strings.TEXTS)) -> dict:
    declared = exported.manifest["signatures"]["serving_default"]
    return strings.example(declared["inputs"], count)


CHECKS = {
    "weights' sha256": weights.weights_sha256,
    "trainable variables": weights.trainable,
    "signatures": signatures,
    "outputs": outputs,
    "empty batch": empty_batch,
    "labels": labels,
    "assets": tokenizer.assets,
    "do_lower_case": tokenizer.do_lower_case,
    "dropout off, on": dropout_off_on,
    "numbers: real text": text_numbers,
}
