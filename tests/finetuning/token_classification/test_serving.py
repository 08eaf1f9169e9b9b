"""Outputs of the serving graph equal those of the model on features."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
)
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)

LONGEST = 40
LABELS = ("O", "B-X", "I-X", "B-Y")
# A word that is all accents, one that is a control character, and one that has
# more pieces than a row.
ODD = ["\u0301 the \u0007 movie", "bad" * 30 + " was " + "good" * 20, "a" * 99]


@pytest.fixture(scope="module")
def model(serving_config, noisy):
    model = noisy(AlbertTokenClassifier(serving_config, len(LABELS)))
    ids = np.arange(LONGEST)[None]
    inputs = {
        "input_word_ids": ids,
        "input_mask": np.ones_like(ids),
        "input_type_ids": np.zeros_like(ids),
    }
    # So that the labels differ.
    model.token_head.bias.assign_sub(np.mean(model(inputs), axis=(0, 1)))
    return model


def make_type(tokenizer, length):
    config = with_settings(known_task("ner"), {"max_seq_length": length})
    return make_task_type(dataclasses.replace(config, labels=LABELS), tokenizer)


def expected_logits(task_type, model, sentences):
    examples = [
        TokenClassificationExample(id="", words=x, location="")
        for x in sentences
    ]
    rows = task_type.features(examples, labelled=False)
    logits = model(rows.pad(range(len(rows)))).numpy()
    return [logits[tuple(positions)] for positions in rows.metadata]


def outputs_of(task_type, model, packed=True, trace=False, **texts):
    graph = task_type.serving_graph(model, packed=packed)
    inputs = {name: tf.constant(x) for name, x in texts.items()}
    call = tf.function(graph.call, autograph=False) if trace else graph.call
    return call(inputs, False)


def check(outputs, sentences, expected):
    longest = max(map(len, sentences))
    assert outputs["words"].shape == [len(sentences), longest]
    labels = set()
    for row, (words, logits) in enumerate(
        zip(sentences, expected, strict=True)
    ):
        found = {name: x[row].numpy() for name, x in outputs.items()}
        count = len(words)
        padding = [b""] * (longest - count)
        assert found["words"].tolist() == [w.encode() for w in words] + padding
        # Padding, and its removal, change the order of sums in float32.
        np.testing.assert_allclose(
            found["logits"][:count], logits, rtol=0, atol=1e-5
        )
        np.testing.assert_allclose(
            found["probabilities"][:count],
            tf.nn.softmax(logits),
            rtol=0,
            atol=1e-5,
        )
        best = [LABELS[place].encode() for place in logits.argmax(-1)]
        assert found["labels"].tolist() == best + padding
        assert not found["logits"][count:].any()
        assert not found["probabilities"][count:].any()
        labels |= set(best)
    assert len(labels) > 1


# 3: one word per sequence; 9: many sequences per sentence; 40: few.
@pytest.mark.parametrize(
    ("length", "packed", "trace"),
    [
        (3, True, False),
        (9, True, True),
        (9, False, False),
        (LONGEST, True, False),
    ],
)
def test_texts(model, tokenizer, texts, length, packed, trace):
    task_type = make_type(tokenizer, length)
    texts = [*texts, *ODD]
    sentences = [tuple(text.split()) for text in texts]
    outputs = outputs_of(task_type, model, packed, trace, text=texts)
    check(outputs, sentences, expected_logits(task_type, model, sentences))


def test_texts_are_split_like_str_split_and_words_are_not(model, tokenizer):
    task_type = make_type(tokenizer, 9)
    spaces = [chr(c) for c in range(0x110000) if chr(c).isspace()]
    others = ["\u200b", "\u0008", "\u2060"]
    text = "".join(f"{n}{c}" for n, c in enumerate([*spaces, *others]))
    outputs = outputs_of(task_type, model, text=[text])
    found = [word.decode() for word in outputs["words"][0].numpy()]
    assert found == text.split()
    assert len(found) > 20

    # With a blank inside; and one that is not the end of a sentence is padding.
    words = [["New York", "", "is good", " "], ["", "", "", ""]]
    outputs = outputs_of(task_type, model, words=words)
    sentences = [("New York", "is good", " ")]
    [logits] = expected_logits(task_type, model, sentences)
    np.testing.assert_allclose(
        outputs["logits"][0], np.insert(logits, 1, 0, axis=0), atol=1e-5
    )
    assert outputs["words"].numpy().astype(str).tolist() == words
    assert not outputs["logits"][1].numpy().any()


def test_lengths_out_of_bounds(model, tokenizer):
    with pytest.raises(InputError, match="max_seq_length=2 must be at least 3"):
        make_type(tokenizer, 2)
    with pytest.raises(InputError, match="max_seq_length=41 must be at most"):
        make_type(tokenizer, 41).serving_graph(model)
