"""Checks of a text encoder: strings in, embeddings out."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from . import strings, tokenizer, weights
from .dropout import dropout
from .exported import Exported
from .findings import expect, expect_same
from .numbers import difference, shown

_VECTORS = ("pooled_output", "mean_output", "default")
_ROWS = ("input_word_ids", "input_mask", "input_type_ids")
_SIGNATURES = {
    "serving_default": ["mean_output", "pooled_output"],
    "sequence": ["sequence_output", *_ROWS],
}
_SHORT = 7


def outputs(exported: Exported) -> str:
    """Names, types and shapes of the outputs, of texts and of pairs."""
    hidden = exported.manifest["config"]["hidden_size"]
    batch, longest = len(strings.TEXTS), exported.manifest["seq_length"]
    for texts in (strings.texts(), [strings.texts(), strings.texts()]):
        found = exported.root(texts)
        names = sorted([*_VECTORS, "sequence_output", *_ROWS])
        expect_same(sorted(found), names, "outputs")
        for name in _VECTORS:
            expect_same(found[name].dtype.name, "float32", name)
            shape = found[name].shape.as_list()
            expect_same(shape, [batch, hidden], f"shape of {name}")
        length = found["input_mask"].shape[1]
        expect(length <= longest, f"rows of {length}, more than {longest}")
        shape = found["sequence_output"].shape.as_list()
        expect_same(shape, [batch, length, hidden], "shape of sequence_output")
    return ", ".join([*_VECTORS, "sequence_output"])


def seq_length(exported: Exported) -> str:
    """The object takes another length, as a number or a tensor."""
    for length in (_SHORT, tf.constant(_SHORT)):
        found = exported.root(strings.texts(), seq_length=length)["input_mask"]
        expect_same(found.shape[1], _SHORT, "length of rows")
    return f"{_SHORT} instead of {exported.manifest['seq_length']}"


def mean(exported: Exported) -> str:
    """`mean_output` is the mean over the tokens but padding."""
    found = exported.root(strings.texts())
    mask = found["input_mask"].numpy()[:, :, None]
    wanted = (found["sequence_output"].numpy() * mask).sum(1) / mask.sum(1)
    return shown(difference(found["mean_output"], wanted, "mean_output"))


def signatures(exported: Exported) -> str:
    """Signatures have names, and give what the object gives."""
    wanted = exported.root(strings.texts())
    for name, outputs in _SIGNATURES.items():
        found = exported.signature(name)(text=strings.texts())
        strings.same_outputs(found, wanted, outputs, name)
    return ", ".join(_SIGNATURES)


def dropout_off_on(exported: Exported) -> str:
    """Dropout is off, and on if it is asked for."""
    return dropout(exported, strings.texts(), "pooled_output")


def text_numbers(exported: Exported) -> str:
    """Real text gives what tokenizer and model of the source make of it."""
    wanted = exported.expected("text")
    texts = tf.constant([bytes(text) for text in wanted["texts"]])
    found = exported.root(texts)
    for name in _ROWS:
        expect(np.array_equal(found[name], wanted[name]), f"{name} differs")
    return shown(
        max(
            difference(found[name], wanted[name], name)
            for name in ("pooled_output", "mean_output")
        )
    )


CHECKS = {
    "weights' sha256": weights.weights_sha256,
    "trainable variables": weights.trainable,
    "outputs": outputs,
    "seq_length": seq_length,
    "mean_output": mean,
    "signatures": signatures,
    "assets": tokenizer.assets,
    "do_lower_case": tokenizer.do_lower_case,
    "dropout off, on": dropout_off_on,
    "numbers: real text": text_numbers,
}
