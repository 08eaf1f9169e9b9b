"""Outputs of serving graphs equal those of the model on features."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.registry import make_task_type, with_settings
from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.text_classification.task import text_task_config

LABELS = ("bad", "good", "\u00e9gal")
TASK = TextTask(name="t", labels=LABELS, metrics=("accuracy",), text="text")


@pytest.fixture(scope="module")
def make_type(tokenizer):
    """Returns `make(length, **fields of the task)`."""

    def make(length, head=None, **fields):
        task = text_task_config(dataclasses.replace(TASK, **fields))
        task = with_settings(task, {"max_seq_length": length, "head": head})
        return make_task_type(task, tokenizer)

    return make


@pytest.fixture(scope="module")
def classifier(serving_config, noisy, make_type, texts):
    model = noisy(AlbertClassifier(serving_config, len(LABELS)))
    # So that the labels differ.
    logits = expected_logits(make_type(40), model, texts)
    model.classifier_head.bias.assign_sub(logits.mean(axis=0))
    return model


def expected_logits(task_type, model, texts, pairs=None):
    examples = [
        TextExample(id="", text=text, pair=pair, location="")
        for text, pair in zip(texts, pairs or [None] * len(texts), strict=True)
    ]
    rows = task_type.features(examples, labelled=False)
    return model(rows.pad(range(len(examples)))).numpy()


def outputs_of(task_type, model, *texts, packed=True, trace=False):
    graph = task_type.serving_graph(model, packed=packed)
    names = graph.forms["serving_default"]
    inputs = dict(zip(names, map(tf.constant, texts), strict=True))
    call = tf.function(graph.call, autograph=False) if trace else graph.call
    return call(inputs, False)


def close(actual, desired):
    # Padding, and its removal, change the order of sums in float32.
    np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-5)


@pytest.mark.parametrize("packed", [True, False])
def test_classes(classifier, make_type, texts, packed):
    task_type = make_type(17)
    outputs = outputs_of(
        task_type, classifier, texts, packed=packed, trace=packed
    )
    logits = expected_logits(task_type, classifier, texts)
    assert np.std(logits, axis=0).min() > 0.05
    close(outputs["logits"], logits)
    close(outputs["probabilities"], tf.nn.softmax(logits))
    best = [LABELS[index].encode() for index in logits.argmax(-1)]
    assert outputs["label"].numpy().tolist() == best
    assert len(set(best)) > 1


# 5: room for a piece of each; 40: the model's longest.
@pytest.mark.parametrize("length", [5, 12, 40])
def test_pairs(classifier, make_type, texts, length):
    task_type = make_type(length, pair="second")
    # Every text with every other: each of them the longer one, or empty.
    pairs = list(zip(*itertools.product(texts, texts), strict=True))
    outputs = outputs_of(task_type, classifier, *pairs)
    close(outputs["logits"], expected_logits(task_type, classifier, *pairs))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("length", [5, 40])
def test_pair_features(serving_config, noisy, make_type, texts, length, packed):
    task_type = make_type(length, pair="second", head="pair_features")
    model = noisy(task_type.model_class(serving_config, len(LABELS)))
    pairs = list(zip(*itertools.product(texts, texts), strict=True))
    outputs = outputs_of(task_type, model, *pairs, packed=packed)
    close(outputs["logits"], expected_logits(task_type, model, *pairs))


def test_numbers(serving_config, noisy, make_type, texts):
    model = noisy(AlbertClassifier(serving_config, 1))
    task_type = make_type(20, labels=None)
    outputs = outputs_of(task_type, model, texts)
    assert set(outputs) == {"value"}
    close(outputs["value"], expected_logits(task_type, model, texts)[:, 0])


def test_lengths_out_of_bounds(classifier, make_type):
    with pytest.raises(InputError, match="max_seq_length=3 must be at least 4"):
        make_type(3)
    with pytest.raises(InputError, match="max_seq_length=4 must be at least 5"):
        make_type(4, pair="second")
    with pytest.raises(InputError, match="max_seq_length=41 must be at most"):
        make_type(41).serving_graph(classifier)


def test_heads_of_a_task(make_type):
    with pytest.raises(InputError, match="head=pair_features needs two texts"):
        make_type(40, head="pair_features")
    with pytest.raises(InputError, match="head=v1: .* have cls and pair_feat"):
        make_type(40, head="v1", pair="second")
    # The default is not written: older versions read the task.
    settings = make_type(40, head="cls").task_config.settings
    assert settings == {"max_seq_length": 40}
