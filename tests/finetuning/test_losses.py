"""Losses of fine-tuning.

tests/models/test_google_heads.py compares them with the original's.
"""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.question_answering.model import SpanLoss
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
    TokenClassificationLoss,
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
