"""Task models against the original's outputs and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier

# As in test_google_parity.py.
TOLERANCE = 2e-5


def assert_close(actual, expected):
    np.testing.assert_allclose(
        np.asarray(actual), expected, rtol=0, atol=TOLERANCE
    )


def cross_entropy(labels, logits):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    )


def run(model, inputs, loss_of):
    """Returns outputs, loss and gradients, without dropout."""
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        loss = loss_of(outputs)
    variables = [v.value for v in model.trainable_variables]
    return outputs, loss, tape.gradient(loss, variables)


PACKED = pytest.mark.parametrize("packed", [False, True])


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
            assert_close(value, expected[name])

    return check


def squared_error(labels, outputs):
    return tf.reduce_mean(tf.square(outputs[:, 0] - labels))


# Task -> model and loss.
TASKS = {
    "classifier": (
        lambda config, **k: AlbertClassifier(config, 2, **k),
        cross_entropy,
    ),
    "stsb": (
        lambda config, **k: AlbertClassifier(config, 1, **k),
        squared_error,
    ),
    "race": (AlbertMultipleChoice, cross_entropy),
}


@PACKED
@pytest.mark.parametrize("task", TASKS)
def test_labels(google_head, assert_gradients, task, packed):
    make, loss_of = TASKS[task]
    head = google_head(task)
    model = head.load(make(head.config, packed=packed))
    inputs = head.encoder_inputs()
    if task == "race":
        inputs = {k: tf.reshape(x, (3, 4, 16)) for k, x in inputs.items()}
    labels = head.inputs["label_ids"]
    logits, loss, gradients = run(model, inputs, lambda x: loss_of(labels, x))
    expected = head.outputs["logits"]
    assert_close(tf.reshape(logits, expected.shape), expected)
    assert_close(loss, head.outputs["loss"])
    assert_gradients(head, model, gradients, "grad/")


def test_spans_of_squad_1(google_head, assert_gradients):
    head = google_head("squad_v1")
    model = head.load(AlbertQuestionAnswering(head.config, "v1"))
    starts, ends = head.inputs["start_positions"], head.inputs["end_positions"]

    def loss_of(outputs):
        start = cross_entropy(starts, outputs["start_logits"])
        end = cross_entropy(ends, outputs["end_logits"])
        return (start + end) / 2

    outputs, loss, gradients = run(model, head.encoder_inputs(), loss_of)
    for name, value in outputs.items():
        assert_close(value, head.outputs[f"predict/{name}"])
        assert_close(value, head.outputs[f"train/{name}"])
    assert_close(loss, head.outputs["train/total_loss"])
    assert_gradients(head, model, gradients, "train/grad/")


# Our names of the original's outputs.
JOINT = {"cls_logits": "is_impossible_logits"}


@PACKED
def test_joint_spans_at_prediction(google_head, packed):
    head = google_head("squad_v2")
    model = AlbertQuestionAnswering(head.config, "joint", packed=packed)
    head.load(model)
    inputs = {**head.encoder_inputs(), "p_mask": head.inputs["p_mask"]}
    outputs = model(inputs)
    names = [n for n in head.outputs if n.startswith("predict/")]
    assert len(names) == len(outputs)
    for name in names:
        short = name.removeprefix("predict/")
        actual = outputs[JOINT.get(short, short)].numpy()
        expected = head.outputs[name]
        assert actual.dtype == expected.dtype
        if "index" in name:
            np.testing.assert_array_equal(actual, expected)
        else:
            np.testing.assert_array_equal(actual == -1e30, expected == -1e30)
            assert_close(actual, expected)


@PACKED
def test_joint_spans_in_training(google_head, assert_gradients, packed):
    head = google_head("squad_v2")
    model = AlbertQuestionAnswering(head.config, "joint", packed=packed)
    head.load(model)
    starts, ends = head.inputs["start_positions"], head.inputs["end_positions"]
    impossible = tf.cast(head.inputs["is_impossible"], "float32")

    def losses_of(outputs):
        start = -tf.gather(outputs["start_log_probs"], starts, batch_dims=1)
        end = -tf.gather(outputs["end_log_probs"], ends, batch_dims=1)
        answerable = tf.nn.sigmoid_cross_entropy_with_logits(
            impossible, outputs["is_impossible_logits"]
        )
        return [tf.reduce_mean(x) for x in (start, end, answerable)]

    def loss_of(outputs):
        start, end, answerable = losses_of(outputs)
        return 0.5 * (start + end) + 0.5 * answerable

    inputs = {
        **head.encoder_inputs(),
        "p_mask": head.inputs["p_mask"],
        "start_positions": starts,
    }
    outputs, loss, gradients = run(model, inputs, loss_of)
    assert len(outputs) == 3
    for name in ("start_log_probs", "end_log_probs", "cls_logits"):
        actual = outputs[JOINT.get(name, name)]
        assert_close(actual, head.outputs[f"train/{name}"])
    names = ("start_loss", "end_loss", "answerable_loss")
    for name, value in zip(names, losses_of(outputs), strict=True):
        assert_close(value, head.outputs[f"train/{name}"])
    assert_close(loss, head.outputs["train/total_loss"])
    assert_gradients(head, model, gradients, "train/grad/")
