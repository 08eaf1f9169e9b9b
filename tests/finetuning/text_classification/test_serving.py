"""The graphs of texts, against the rows that models are trained on."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.finetuning.text_classification.features import text_features
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.text_classification.serving import (
    regression_graph,
    text_classification_graph,
)

LABELS = ("bad", "good", "\u00e9gal")


@pytest.fixture(scope="module")
def classifier(serving_config, noisy, tokenizer, texts):
    model = noisy(AlbertClassifier(serving_config, len(LABELS)))
    logits = expected_logits(model, tokenizer, texts, [None] * len(texts), 40)
    # So that the labels differ.
    model.classifier_head.bias.assign_sub(logits.mean(axis=0))
    return model


def expected_logits(model, tokenizer, texts, pairs, length):
    examples = [
        TextExample(id=str(n), text=text, pair=pair, location="")
        for n, (text, pair) in enumerate(zip(texts, pairs, strict=True))
    ]
    rows = text_features(
        examples, tokenizer, max_seq_length=length, labelled=False
    )
    return model(rows.pad(range(len(texts)))).numpy()


# Padding, and its removal, change the order of sums in float32.
def close(actual, desired):
    np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-5)


@pytest.mark.parametrize("packed", [True, False])
def test_classes(classifier, tokenizer, texts, packed):
    graph = text_classification_graph(
        classifier,
        tokenizer,
        labels=LABELS,
        pair=False,
        max_seq_length=17,
        packed=packed,
    )
    outputs = tf.function(graph.call)({"text": tf.constant(texts)}, False)
    logits = expected_logits(
        classifier, tokenizer, texts, [None] * len(texts), 17
    )
    assert np.std(logits, axis=0).min() > 0.05
    close(outputs["logits"], logits)
    close(outputs["probabilities"], tf.nn.softmax(logits))
    best = [LABELS[place].encode() for place in logits.argmax(-1)]
    assert outputs["label"].numpy().tolist() == best
    assert len(set(best)) > 1


# 5: room for a piece of each; 40: the model's longest.
@pytest.mark.parametrize("length", [5, 12, 40])
def test_pairs(classifier, tokenizer, texts, length):
    graph = text_classification_graph(
        classifier, tokenizer, labels=LABELS, pair=True, max_seq_length=length
    )
    # Every text with every other: each of them the longer one, or empty.
    firsts, seconds = zip(*itertools.product(texts, texts), strict=True)
    outputs = tf.function(graph.call)(
        {"text": tf.constant(firsts), "text_pair": tf.constant(seconds)}, False
    )
    close(
        outputs["logits"],
        expected_logits(classifier, tokenizer, firsts, seconds, length),
    )


def test_numbers(serving_config, noisy, tokenizer, texts):
    model = noisy(AlbertClassifier(serving_config, 1))
    graph = regression_graph(model, tokenizer, pair=False, max_seq_length=20)
    outputs = tf.function(graph.call)({"text": tf.constant(texts)}, False)
    logits = expected_logits(model, tokenizer, texts, [None] * len(texts), 20)
    assert set(outputs) == {"value"}
    close(outputs["value"], logits[:, 0])
    with pytest.raises(InputError, match="num_labels=3 .* must be 1"):
        regression_graph(
            AlbertClassifier(serving_config, 3),
            tokenizer,
            pair=False,
            max_seq_length=20,
        )


@pytest.mark.parametrize(
    ("length", "labels", "message"),
    [
        (3, LABELS, "max_seq_length=3 must be at least 4"),
        (41, LABELS, "max_seq_length=41 must be at most 40"),
        (9, LABELS[:2], "labels=bad,good: there are 2, but the model has 3"),
    ],
)
def test_what_does_not_fit(classifier, tokenizer, length, labels, message):
    with pytest.raises(InputError, match=message):
        text_classification_graph(
            classifier,
            tokenizer,
            labels=labels,
            pair=False,
            max_seq_length=length,
        )
