"""Checks of an encoder: TF-Hub's text contract, and what is promised beyond."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from . import tokenizer, weights
from .dropout import dropout
from .exported import Exported
from .findings import Skipped, expect, expect_same
from .numbers import difference, shown

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
POSITIONS = "masked_lm_positions"
_HEADS = {"mlm": "mlm_logits", "sop": "sop_logits"}
# Of a batch that checks itself: rows of different lengths.
_BATCH, _LENGTH = 3, 12


def interface(exported: Exported) -> str:
    """The object is traced for both values of `training`, and both integers."""
    root = exported.root
    for name, endpoint, names in _endpoints(exported):
        traces = set()
        for function in endpoint.__call__.concrete_functions:
            (inputs, training), _ = function.structured_input_signature
            expect_same(sorted(inputs), sorted(names), f"inputs of {name}")
            for spec in inputs.values():
                expect_same(spec.shape.as_list(), [None, None], spec.name)
            (dtype,) = {spec.dtype for spec in inputs.values()}
            traces.add((dtype.name, training))
        for dtype in ("int32", "int64"):
            for training in (False, True):
                expect(
                    (dtype, training) in traces,
                    f"{name} has no trace of {dtype} with training={training}",
                )
    expect(hasattr(root, "call_training"), "there is no call_training")
    return ", ".join(name for name, _, _ in _endpoints(exported))


def outputs(exported: Exported) -> str:
    """Names, types and shapes of the outputs are those of the contract."""
    config = exported.manifest["config"]
    hidden = config["hidden_size"]
    states = [_BATCH, _LENGTH, hidden]
    shapes = {"sequence_output": states, "pooled_output": [_BATCH, hidden]}
    found = exported.root(_inputs(exported))
    _check_outputs(
        "the object",
        found,
        shapes | {"default": [_BATCH, hidden]},
        config["num_hidden_layers"] * config["inner_group_num"],
    )
    difference(found["default"], found["pooled_output"], "default")
    last = found["encoder_outputs"][-1]
    difference(last, found["sequence_output"], "the last of encoder_outputs")
    for name, logits in _heads(exported).items():
        sizes = [_BATCH, 2, config["vocab_size"]]
        head = getattr(exported.root, name)(_inputs(exported, name))
        wanted = shapes | {logits: sizes if name == "mlm" else [_BATCH, 2]}
        _check_outputs(name, head, wanted, len(found["encoder_outputs"]))
        # Heads share the encoder.
        difference(head["pooled_output"], found["pooled_output"], name)
    return ", ".join([*shapes, *_heads(exported).values()])


def signature(exported: Exported) -> str:
    """`serving_default` has names, and gives what the object gives."""
    serve = exported.signature()
    _, named = serve.structured_input_signature
    expect_same(sorted(named), sorted(INPUTS), "inputs")
    names = sorted(serve.structured_outputs)
    expect_same(names, ["pooled_output", "sequence_output"], "outputs")
    inputs = _inputs(exported)
    found, wanted = serve(**inputs), exported.root(inputs)
    return shown(max(difference(found[x], wanted[x], x) for x in names))


def dropout_off_on(exported: Exported) -> str:
    """Without dropout nothing changes from call to call; with it, all does."""
    return dropout(exported, _inputs(exported), "pooled_output")


def int64_ids(exported: Exported) -> str:
    """Ids of NumPy and JSON, int64, give the same as int32."""
    inputs = _inputs(exported)
    wide = {name: tf.cast(x, tf.int64) for name, x in inputs.items()}
    found, wanted = exported.root(wide), exported.root(inputs)
    return shown(
        difference(found["sequence_output"], wanted["sequence_output"], "int64")
    )


def too_long(exported: Exported) -> str:
    """Rows beyond the limit are an error that says the limit."""
    longest = exported.manifest["config"]["max_position_embeddings"]
    row = tf.ones([1, longest + 1], tf.int32)
    try:
        exported.root(dict.fromkeys(INPUTS, row))
    except Exception as error:
        text = str(error)
        expect(
            str(longest) in text and "input_word_ids" in text,
            f"the error does not say {longest}: {text}",
        )
        return f"limit {longest}"
    expect(False, f"{longest + 1} tokens were taken, more than {longest}")


def gradients(exported: Exported) -> str:
    """Every variable of the encoder is reached by gradients."""
    with tf.GradientTape() as tape:
        found = exported.root(_inputs(exported), training=True)
        # Squares: the plain sum of what a LayerNorm gives is constant.
        loss = tf.reduce_sum(found["sequence_output"] ** 2)
        loss += tf.reduce_sum(found["pooled_output"])
    variables = exported.root.trainable_variables
    for variable, gradient in zip(
        variables, tape.gradient(loss, variables), strict=True
    ):
        expect(gradient is not None, f"{variable.name} has no gradient")
    return f"{len(variables)} variables"


def xla(exported: Exported) -> str:
    """XLA compiles it."""
    if exported.manifest["packed"]:
        raise Skipped("packed exports are not for XLA")
    inputs = _inputs(exported)
    compiled = tf.function(
        lambda x: exported.root(x)["sequence_output"],
        jit_compile=True,
        autograph=False,
    )
    wanted = exported.root(inputs)["sequence_output"]
    return shown(difference(compiled(inputs), wanted, "compiled"))


def random_numbers(exported: Exported) -> str:
    """Random ids give what the source model makes of them."""
    return _compared(exported, ["random", "longest"])


def text_numbers(exported: Exported) -> str:
    """Real text gives what the source model makes of it."""
    return _compared(exported, ["text"])


def _compared(exported: Exported, sets: list[str]) -> str:
    largest = 0.0
    for name in sets:
        wanted = exported.expected(name)
        real = wanted["input_mask"]
        inputs = {x: tf.constant(wanted[x]) for x in INPUTS}
        found = exported.root(inputs)
        largest = max(
            largest,
            difference(
                found["sequence_output"],
                wanted["sequence_output"],
                "sequence_output",
                real,
            ),
            difference(
                found["pooled_output"], wanted["pooled_output"], "pooled_output"
            ),
        )
        for head, logits in _heads(exported).items():
            if head == "mlm":
                positions = tf.constant(wanted[POSITIONS])
                given = {**inputs, POSITIONS: positions}
            else:
                given = inputs
            found = getattr(exported.root, head)(given)[logits]
            largest = max(largest, difference(found, wanted[logits], logits))
    return shown(largest)


def _heads(exported: Exported) -> dict[str, str]:
    """Returns sub-object -> output, of the heads that the weights have."""
    parts = {name.split("/")[0] for name in exported.manifest["weights"]}
    return {
        name: logits
        for name, logits in _HEADS.items()
        if f"{name}_head" in parts
    }


def _endpoints(exported: Exported) -> list[tuple]:
    """Returns (name, callable object, names of its inputs)."""
    found = [("the object", exported.root, INPUTS)]
    for name in _heads(exported):
        endpoint = getattr(exported.root, name, None)
        expect(endpoint is not None, f"there is no .{name}")
        more = (POSITIONS,) if name == "mlm" else ()
        found.append((name, endpoint, (*INPUTS, *more)))
    return found


def _inputs(exported: Exported, endpoint: str = "") -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(0)
    mask = np.arange(_LENGTH) < np.array([_LENGTH, 5, 1])[:, None]
    vocab_size = exported.manifest["config"]["vocab_size"]
    inputs = {
        "input_word_ids": rng.integers(0, vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(_LENGTH) > 3) * mask,
    }
    if endpoint == "mlm":
        inputs[POSITIONS] = np.array([[1, 11], [2, 0], [0, 0]])
    return {name: tf.constant(x, tf.int32) for name, x in inputs.items()}


def _check_outputs(name, found, shapes, blocks: int) -> None:
    expect_same(
        sorted(found),
        sorted([*shapes, "encoder_outputs"]),
        f"outputs of {name}",
    )
    for key, shape in shapes.items():
        expect_same(found[key].dtype.name, "float32", key)
        expect_same(found[key].shape.as_list(), shape, f"shape of {key}")
    states = found["encoder_outputs"]
    expect_same(len(states), blocks, f"encoder_outputs of {name}")
    for state in states:
        expect_same(
            state.shape.as_list(), shapes["sequence_output"], "encoder_outputs"
        )


CHECKS = {
    "weights' sha256": weights.weights_sha256,
    "trainable variables": weights.trainable,
    "inputs": interface,
    "outputs": outputs,
    "signature": signature,
    "assets": tokenizer.assets,
    "do_lower_case": tokenizer.do_lower_case,
    "dropout off, on": dropout_off_on,
    "int64 ids": int64_ids,
    "over-length error": too_long,
    "gradients": gradients,
    "XLA": xla,
    "numbers: random ids": random_numbers,
    "numbers: real text": text_numbers,
}
