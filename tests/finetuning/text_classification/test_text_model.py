"""`fit`, `evaluate` and `predict` of classifiers with texts."""

import collections
import dataclasses
import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.finetuning.text_classification.features import text_features
from albert_tf.finetuning.text_classification.model import (
    AlbertClassifier,
    AlbertPairClassifier,
)

# tests/finetuning/test_task_models.py has graphs.
pytestmark = pytest.mark.usefixtures("without_graphs")

CLASSES = [AlbertClassifier, AlbertPairClassifier]
LABELS = ("bad", "good")
FIRST = ["the good movie", "a bad film", "", "I have seen it, 12,345 times"]
SECOND = ["x", "", "the bad movie", "b\u00e0d f\u0131lm " * 40]
NAMES = ["good", "bad", "bad", "good"]
IDS = [1, 0, 0, 1]


@pytest.fixture
def make(serving_config, noisy, tokenizer):
    """Returns `make(class, num_labels, **arguments)`: a compiled model."""

    def make(model_class=AlbertClassifier, num_labels=2, **arguments):
        if num_labels == 2:
            arguments = {"labels": LABELS, **arguments}
        keras.utils.set_random_seed(1)
        arguments = {"dropout": 0.0, **arguments}
        # Dropout's masks depend on the shapes of batches.
        config = dataclasses.replace(
            serving_config,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        model = noisy(model_class(config, num_labels, **arguments))
        model.tokenizer = tokenizer
        loss = "mse"
        if num_labels > 1:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"])
        return model

    return make


class Column(collections.UserList):
    """A sequence that is no list, like a column of Hugging Face's datasets."""


def dataset(*values):
    return tf.data.Dataset.from_tensor_slices(values)


SINGLE = {
    "list": FIRST,
    "array": np.array(FIRST),
    "objects": np.array(FIRST, object),
    "bytes": [text.encode() for text in FIRST],
    "tensor": tf.constant(FIRST),
    "sequence": Column(FIRST),
    "dataset": tf.data.Dataset.from_tensor_slices(FIRST),
    "batches": tf.data.Dataset.from_tensor_slices(FIRST).batch(3),
    "x, y": dataset(FIRST, IDS),
}
PAIRS = {
    "lists": (FIRST, SECOND),
    "list and array": (FIRST, np.array(SECOND)),
    "sequence and list": (Column(FIRST), SECOND),
    "dataset": dataset((FIRST, SECOND)),
    "batches": dataset((FIRST, SECOND), IDS).batch(3),
}


def expected(model, first, second=None):
    """Returns the logits of ids that the tokenizer makes."""
    examples = [
        TextExample(id="", text=a, pair=b, location="")
        for a, b in zip(first, second or [None] * len(first), strict=True)
    ]
    features = text_features(
        examples,
        model.tokenizer,
        max_seq_length=model.max_seq_length,
        labelled=False,
    )
    return model(features.pad(range(len(examples)))).numpy()


def close(actual, desired):
    # Padding changes the order of sums in float32.
    np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", SINGLE)
def test_texts(make, kind):
    model = make()
    logits = model.predict(SINGLE[kind], verbose=0)
    assert np.ptp(logits[:, 0]) > 0.01
    close(logits, expected(model, FIRST))


@pytest.mark.parametrize("model_class", CLASSES)
@pytest.mark.parametrize("kind", PAIRS)
def test_pairs(make, kind, model_class):
    model = make(model_class)
    logits = model.predict(PAIRS[kind], verbose=0)
    close(logits, expected(model, FIRST, SECOND))


def test_labels_and_ids_train_the_same(make):
    ids = make()
    features = {
        name: np.array(x)
        for name, x in ids._arrays(FIRST, None, None, None)[0].items()
    }
    ids.fit(features, np.array(IDS), batch_size=4, verbose=0)
    for data in (
        (FIRST, NAMES),
        (np.array(FIRST), np.array(NAMES)),
        (FIRST, IDS),
        (tf.constant(FIRST), tf.constant(NAMES)),
        (Column(FIRST), Column(NAMES)),
        (dataset(FIRST, NAMES).batch(4),),
        (dataset(FIRST, IDS),),
    ):
        model = make()
        model.fit(*data, batch_size=4, shuffle=False, verbose=0)
        for ours, theirs in zip(model.weights, ids.weights, strict=True):
            np.testing.assert_allclose(
                ours.numpy(), theirs.numpy(), rtol=0, atol=1e-5
            )


def test_validation_and_weights(make):
    model = make()
    history = model.fit(
        FIRST,
        NAMES,
        validation_data=(Column(FIRST[:2]), Column(NAMES[:2])),
        verbose=0,
    )
    values = model.evaluate(FIRST[:2], NAMES[:2], verbose=0)
    assert history.history["val_loss"][-1] == pytest.approx(values[0], abs=1e-5)
    data = dataset(FIRST[:2], NAMES[:2])
    assert model.evaluate(data, verbose=0) == pytest.approx(values, abs=1e-5)
    history = model.fit(FIRST, NAMES, validation_data=data, verbose=0)
    assert "val_loss" in history.history
    history = model.fit(FIRST, NAMES, validation_split=0.5, verbose=0)
    assert "val_loss" in history.history
    before = [weight.numpy() for weight in model.weights]
    model.fit(FIRST, NAMES, sample_weight=[0, 0, 0, 0], verbose=0)
    for old, new in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(old, new.numpy())


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ("a text", None, r"give a list, \[text\]"),
        (("a", "b"), None, "must consist of lists"),
        ([("a", "b")], None, "a tuple of two lists"),
        ([], None, "no texts; give at least one"),
        (["a", 3], None, "text 1, 3, must be a string"),
        (np.array([["a"]]), None, r"shape \[1, 1\]"),
        (["a"], ["great"], "label 'great' of text 0"),
    ],
)
def test_invalid_arguments(make, x, y, message):
    with pytest.raises(InputError, match=message):
        make().fit(x, y, verbose=0)


def test_a_table_has_no_order_of_texts(make):
    table = types.SimpleNamespace(columns=["text"])
    model = make()
    for method in (model.fit, model.evaluate, model.predict):
        with pytest.raises(InputError, match="x is a table, of which only"):
            method(table)
        with pytest.raises(InputError, match="x is a table, of which only"):
            method((FIRST, table))


@pytest.mark.parametrize("num_labels", [1, 2])
@pytest.mark.parametrize(
    "loss", ["bce", keras.losses.BinaryCrossentropy(True, name="own")]
)
def test_labels_that_do_not_exclude_each_other(
    make, loss, num_labels, tmp_path
):
    """They are not saved as classes, nor one of them as a number."""
    model = make(num_labels=num_labels)
    model.compile("sgd", loss)
    rows = [[1.0] * num_labels, [0.0] * num_labels]
    model.fit(FIRST, rows * 2, verbose=0)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    with pytest.raises(InputError, match="a multi-label model"):
        Predictor(tmp_path)
    again = AlbertClassifier.from_pretrained(tmp_path)
    assert again.task_config.task_type == "text_classification"
    assert again.multi_label
    # Trained for something else.
    again.compile("sgd", make(num_labels=num_labels).loss)
    again.fit(FIRST, IDS, verbose=0)
    assert not again.multi_label
    kind = "text_classification" if num_labels > 1 else "regression"
    assert again.task_config.task_type == kind


def test_weights_of_classes_with_binary_cross_entropy(make):
    """Of the two classes of one logit; several labels have no class."""
    loss = keras.losses.BinaryCrossentropy(True)
    losses = []
    for weights in (None, {0: 1.0, 1: 5.0}):
        model = make(num_labels=1)
        model.compile(keras.optimizers.SGD(0.0), loss)
        y = [1.0, 0.0] * (len(FIRST) // 2)
        fit = model.fit(FIRST, y, class_weight=weights, verbose=0)
        losses += fit.history["loss"]
    assert losses[1] > 1.5 * losses[0]
    model = make(num_labels=2)
    model.compile("sgd", loss)
    rows = [[1.0, 1.0], [0.0, 0.0]] * (len(FIRST) // 2)
    with pytest.raises(InputError, match="does not support multi-label models"):
        model.fit(FIRST, rows, class_weight={0: 2.0}, verbose=0)


def test_other_task_or_no_tokenizer(make):
    model = make()
    model.fit(FIRST, NAMES, verbose=0)
    with pytest.raises(InputError, match="takes one text, not two"):
        model.predict((FIRST, SECOND))
    model.tokenizer = None
    with pytest.raises(InputError, match="set model.tokenizer ="):
        model.predict(FIRST)
