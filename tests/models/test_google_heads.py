"""Task models and their losses against the original's numbers."""

import numpy as np
import pytest
import tensorflow as tf

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

# As in test_google_parity.py.
TOLERANCE = 2e-5
ENCODER = ("input_word_ids", "input_mask", "input_type_ids")
PACKED = pytest.mark.parametrize("packed", [False, True])


def assert_close(actual, expected, name=""):
    np.testing.assert_allclose(
        np.asarray(actual), expected, rtol=0, atol=TOLERANCE, err_msg=name
    )


@pytest.fixture
def assert_gradients(google_weights):
    """Compares all gradients of a model with the original's."""

    def check(head, model, gradients, prefix):
        actual = google_weights.gradients(model, gradients)
        expected = {
            name.removeprefix(prefix): value
            for name, value in head.outputs.items()
            if name.startswith(prefix)
        }
        assert set(actual) == set(expected)
        for name, value in actual.items():
            assert value.shape == expected[name].shape, name
            assert_close(value, expected[name], name)

    return check


def gradient(model, loss_of):
    """Returns a loss and its gradients, without a graph, which takes long."""
    with tf.GradientTape() as tape:
        loss = loss_of()
    variables = [v.value for v in model.trainable_variables]
    return loss, tape.gradient(loss, variables)


# Task -> model, loss, and the beginning of the original's names.
TASKS = {
    "classifier": (
        lambda config, **k: AlbertClassifier(config, 2, **k),
        CrossEntropyLoss(),
        "",
    ),
    "stsb": (
        lambda config, **k: AlbertClassifier(config, 1, **k),
        RegressionLoss(),
        "",
    ),
    "race": (AlbertMultipleChoice, CrossEntropyLoss(), ""),
    "squad_v2": (
        lambda config, **k: AlbertQuestionAnswering(config, "joint", **k),
        JointSpanLoss(),
        "train/",
    ),
}


@PACKED
@pytest.mark.parametrize("task", TASKS)
def test_losses_of_slices_add_up_to_the_originals(
    google_head, assert_gradients, task, packed
):
    make, loss_fn, prefix = TASKS[task]
    head = google_head(task)
    model = head.load(make(head.config, packed=packed))
    batch = head.batch
    if task == "race":
        batch |= {x: tf.reshape(batch[x], (3, 4, 16)) for x in ENCODER}
    if not prefix:
        expected = head.outputs["logits"]
        logits = model({x: batch[x] for x in ENCODER})
        assert_close(tf.reshape(logits, expected.shape), expected)
    normalizers = loss_fn.normalizers(batch)
    loss, gradients = 0.0, [0.0] * len(model.trainable_variables)
    for part in (slice(None, 1), slice(1, None)):
        piece = {name: x[part] for name, x in batch.items()}
        # No dropout: the seed is what switches it on.
        value, found = gradient(
            model, lambda x=piece: loss_fn(model, x, normalizers, None)[0]
        )
        loss += value
        gradients = [
            total + tf.convert_to_tensor(g)
            for total, g in zip(gradients, found, strict=True)
        ]
    name = "train/total_loss" if prefix else "loss"
    assert_close(loss, head.outputs[name])
    assert_gradients(head, model, gradients, f"{prefix}grad/")


def test_spans_of_squad_1(google_head, assert_gradients):
    head = google_head("squad_v1")
    model = head.load(AlbertQuestionAnswering(head.config, "v1"))
    batch = head.batch
    inputs = {x: batch[x] for x in ENCODER}

    def loss_of():
        outputs = model(inputs)
        losses = [
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                batch[f"{x}_positions"], outputs[f"{x}_logits"]
            )
            for x in ("start", "end")
        ]
        return tf.reduce_mean(losses)

    loss, gradients = gradient(model, loss_of)
    for name, value in model(inputs).items():
        assert_close(value, head.outputs[f"predict/{name}"])
    assert_close(loss, head.outputs["train/total_loss"])
    assert_gradients(head, model, gradients, "train/grad/")


@PACKED
def test_padding_cannot_be_an_answer(google_head, packed):
    """Unlike the original's: its loss has all positions of a row."""
    head = google_head("squad_v1")
    batch, loss_fn = head.batch, SpanLoss()
    padding = np.asarray(batch["input_mask"]) == 0
    assert padding.any()
    expected = 0.0
    for name in ("start", "end"):
        logits = head.outputs[f"train/{name}_logits"].astype(np.float64)
        nll = np.log(np.exp(logits).sum(-1, where=~padding))
        places = np.asarray(batch[f"{name}_positions"])[:, None]
        nll -= np.take_along_axis(logits, places, -1)[:, 0]
        expected += nll.mean() / 2
    model = head.load(AlbertQuestionAnswering(head.config, "v1", packed=packed))
    normalizers = loss_fn.normalizers(batch)
    loss, gradients = gradient(
        model, lambda: loss_fn(model, batch, normalizers, None)[0]
    )
    assert_close(loss, expected)
    assert all(np.isfinite(tf.convert_to_tensor(g)).all() for g in gradients)


@PACKED
def test_joint_spans_at_prediction(google_head, packed):
    head = google_head("squad_v2")
    model = AlbertQuestionAnswering(head.config, "joint", packed=packed)
    head.load(model)
    outputs = model({x: head.batch[x] for x in (*ENCODER, "p_mask")})
    names = [n for n in head.outputs if n.startswith("predict/")]
    assert len(names) == len(outputs)
    for name in names:
        ours = name.removeprefix("predict/").replace("cls", "is_impossible")
        actual, expected = outputs[ours].numpy(), head.outputs[name]
        assert actual.dtype == expected.dtype
        if "index" in name:
            np.testing.assert_array_equal(actual, expected)
        else:
            np.testing.assert_array_equal(actual == -1e30, expected == -1e30)
            assert_close(actual, expected)
