"""Losses and gradients against the original's, whatever the slices."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.losses import CrossEntropyLoss
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
    JointSpanLoss,
    SpanLoss,
)
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    RegressionLoss,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
    TokenClassificationLoss,
)
from albert_tf.interop.names import tensors_of
from albert_tf.models.pretrained import component_of

CASES = {
    "classifier": (AlbertClassifier, {"num_labels": 2}, CrossEntropyLoss()),
    "stsb": (AlbertClassifier, {"num_labels": 1}, RegressionLoss()),
    "race": (AlbertMultipleChoice, {}, CrossEntropyLoss()),
    "squad_v2": (AlbertQuestionAnswering, {"head": "joint"}, JointSpanLoss()),
}
# The original's names of our inputs.
NAMES = {
    "input_ids": "input_word_ids",
    "input_mask": "input_mask",
    "segment_ids": "input_type_ids",
    "label_ids": "labels",
}


def batch_of(inputs):
    batch = {NAMES.get(name, name): x for name, x in inputs.items()}
    return {
        name: tf.constant(x if x.dtype.kind == "f" else x.astype(np.int32))
        for name, x in batch.items()
    }


def share(loss_fn, model, batch, normalizers):
    # Without a graph, which takes seconds; test_xla.py has those of all losses.
    with tf.GradientTape() as tape:
        # No dropout: the seed is what switches it on.
        loss, metrics = loss_fn(model, batch, normalizers, None)
    variables = [v.value for v in model.trainable_variables]
    return loss, metrics, tape.gradient(loss, variables)


@pytest.mark.parametrize("case", CASES)
def test_slices_add_up_to_the_original(case, shared):
    folder = shared("golden", "google", "heads", case)
    config = AlbertConfig.from_json(
        shared("golden", "google", "model", "a_base") / "albert_config.json"
    )
    kind, arguments, loss_fn = CASES[case]
    model = kind.from_pretrained(
        folder / "model.ckpt", config=config, packed=True, **arguments
    )
    batch = batch_of(dict(np.load(folder / "inputs.npz")))
    if case == "race":
        for name in ("input_word_ids", "input_mask", "input_type_ids"):
            batch[name] = tf.reshape(batch[name], (3, 4, -1))
    outputs = dict(np.load(folder / "outputs.npz"))
    prefix = "train/" if case.startswith("squad") else ""
    loss_name = "total_loss" if prefix else "loss"

    normalizers = loss_fn.normalizers(batch)
    loss, gradients = 0.0, [0.0] * len(model.trainable_variables)
    for part in (slice(None, 1), slice(1, None)):
        piece = {name: x[part] for name, x in batch.items()}
        value, _, found = share(loss_fn, model, piece, normalizers)
        loss += value
        gradients = [
            total + tf.convert_to_tensor(g)
            for total, g in zip(gradients, found, strict=True)
        ]
    np.testing.assert_allclose(
        loss, outputs[f"{prefix}{loss_name}"], rtol=0, atol=2e-5
    )
    parts = {component_of(v.path) for v in model.trainable_variables}
    tensors = tensors_of(config, parts, arguments.get("num_labels", 1))
    names = {t.path: t.names["google"].name for t in tensors}
    compared = 0
    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        name = names[variable.path]
        expected = outputs[f"{prefix}grad/{name}"]
        if name.endswith("output_weights"):
            expected = expected.T
        np.testing.assert_allclose(
            gradient, expected, rtol=0, atol=2e-5, err_msg=name
        )
        compared += 1
    assert compared == sum(n.startswith(f"{prefix}grad/") for n in outputs)


def test_padding_cannot_be_an_answer(shared):
    folder = shared("golden", "google", "heads", "squad_v1")
    config = AlbertConfig.from_json(
        shared("golden", "google", "model", "a_base") / "albert_config.json"
    )
    loss_fn = SpanLoss()
    batch = batch_of(dict(np.load(folder / "inputs.npz")))
    outputs = dict(np.load(folder / "outputs.npz"))
    padding = np.asarray(batch["input_mask"]) == 0
    assert padding.any()
    expected = 0.0
    for name in ("start", "end"):
        logits = outputs[f"train/{name}_logits"].astype(np.float64)
        nll = np.log(np.exp(logits).sum(-1, where=~padding))
        places = np.asarray(batch[f"{name}_positions"])[:, None]
        nll -= np.take_along_axis(logits, places, -1)[:, 0]
        expected += nll.mean() / 2
    for packed in (False, True):
        model = AlbertQuestionAnswering.from_pretrained(
            folder / "model.ckpt", config=config, head="v1", packed=packed
        )
        normalizers = loss_fn.normalizers(batch)
        loss, _, gradients = share(loss_fn, model, batch, normalizers)
        assert float(loss) == pytest.approx(expected, abs=2e-5)
        assert all(
            np.isfinite(tf.convert_to_tensor(g)).all() for g in gradients
        )


def test_unlabelled_tokens_are_ignored(config):
    model = AlbertTokenClassifier(config, 3)
    loss_fn = TokenClassificationLoss()
    labels = np.array([[-1, 2, -1, 0], [-1, -1, -1, -1]])
    batch = {
        "input_word_ids": tf.constant([[1, 5, 6, 7], [1, 5, 2, 0]]),
        "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]]),
        "input_type_ids": tf.zeros([2, 4], tf.int32),
        "labels": tf.constant(labels, tf.int32),
    }
    normalizers = loss_fn.normalizers(batch)
    assert float(normalizers["weight"]) == 2
    loss, metrics = loss_fn(model, batch, normalizers, None)
    inputs = {n: batch[n] for n in batch if n != "labels"}
    log_probs = tf.nn.log_softmax(model(inputs))[0].numpy()
    expected = -(log_probs[1, 2] + log_probs[3, 0]) / 2
    assert float(loss) == pytest.approx(expected, abs=1e-6)
    assert metrics["accuracy"][1] == 2
    # A batch of rows without labels, as of sentences of nothing but padding.
    empty = {name: x[1:] for name, x in batch.items()}
    loss, _ = loss_fn(model, empty, loss_fn.normalizers(empty), None)
    assert float(loss) == 0


@pytest.mark.peer
@pytest.mark.parametrize("class_weights", [None, (0.5, 2.0, 1.0)])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_weights_and_smoothing_are_those_of_pytorch(
    class_weights, label_smoothing
):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 3)).astype(np.float32)
    labels = np.array([0, 1, 2, 1, -1, 0], np.int32)
    ours = tf.constant(logits)
    loss_fn = TokenClassificationLoss(class_weights, label_smoothing)
    batch = {"labels": tf.constant(labels)}
    with tf.GradientTape() as tape:
        tape.watch(ours)
        total, metrics = loss_fn.sums(batch, ours)
        loss = total / loss_fn.weight(batch)
    theirs = torch.tensor(logits, requires_grad=True)
    expected = torch.nn.functional.cross_entropy(
        theirs,
        torch.tensor(labels, dtype=torch.long),
        weight=class_weights and torch.tensor(class_weights),
        label_smoothing=label_smoothing,
        ignore_index=-1,
    )
    expected.backward()
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-6)
    np.testing.assert_allclose(
        tape.gradient(loss, ours), theirs.grad, rtol=1e-5, atol=1e-7
    )
    # The accuracy counts all labels alike.
    right = (logits.argmax(-1) == labels).sum()
    assert float(metrics["accuracy"]) == right
    assert float(loss_fn.count(batch)) == 5


def test_exact_spans_are_a_share_of_the_windows_with_an_answer():
    batch = {
        "input_mask": tf.ones([4, 5], tf.int32),
        "start_positions": tf.constant([0, 2, 3, 0]),
        "end_positions": tf.constant([0, 3, 3, 0]),
    }
    # Right for both windows without an answer, and one of those with one.
    outputs = {
        "start_logits": 9.0 * tf.one_hot([0, 2, 1, 0], 5),
        "end_logits": 9.0 * tf.one_hot([0, 3, 3, 0], 5),
    }
    loss_fn = SpanLoss()
    _, sums = loss_fn.sums(batch, outputs)
    assert float(sums["exact_spans"]) == 1
    assert float(loss_fn.count(batch)) == 2
    assert float(loss_fn.weight(batch)) == 4
