"""The graph of words, against the rows that models are trained on."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)
from albert_tf.finetuning.token_classification.serving import (
    token_classification_graph,
)
from albert_tf.finetuning.token_classification.task import (
    values_of_words,
    word_features,
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


def expected_logits(model, tokenizer, sentences, length, rows_as_batch):
    examples = [
        TokenClassificationExample(id="", words=x, location="")
        for x in sentences
    ]
    for rows in word_features(examples, tokenizer, max_seq_length=length):
        if not rows:
            yield np.zeros([0, len(LABELS)])
            continue
        batch = rows_as_batch([(row.ids, row.types) for row in rows], tokenizer)
        yield values_of_words(rows, model(batch).numpy())


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


# 3: a word a row; 9: sentences of many rows; 40: of few.
@pytest.mark.parametrize(
    ("length", "packed"), [(3, True), (9, True), (9, False), (LONGEST, True)]
)
def test_texts(model, tokenizer, texts, rows_as_batch, length, packed):
    texts = [*texts, *ODD]
    graph = token_classification_graph(
        model, tokenizer, labels=LABELS, max_seq_length=length, packed=packed
    )
    outputs = tf.function(graph.call)({"text": tf.constant(texts)}, False)
    sentences = [tuple(text.split()) for text in texts]
    check(
        outputs,
        sentences,
        expected_logits(model, tokenizer, sentences, length, rows_as_batch),
    )


def test_text_is_split_at_pythons_whitespace(model, tokenizer):
    graph = token_classification_graph(
        model, tokenizer, labels=LABELS, max_seq_length=9
    )
    spaces = [chr(c) for c in range(0x110000) if chr(c).isspace()]
    others = ["\u200b", "\u0008", "\u2060"]
    text = "".join(f"{n}{c}" for n, c in enumerate([*spaces, *others]))
    outputs = tf.function(graph.call)({"text": tf.constant([text])}, False)
    words = [word.decode() for word in outputs["words"][0].numpy()]
    assert words == text.split()
    assert len(words) > 20


def test_words_of_the_callers_own(model, tokenizer, rows_as_batch):
    graph = token_classification_graph(
        model, tokenizer, labels=LABELS, max_seq_length=12
    )
    assert graph.other_inputs.keys() == {"words"}
    # With a blank inside; and one that is not the end of a sentence is padding.
    words = [["New York", "", "is good", " "], ["", "", "", ""]]
    outputs = tf.function(graph.call)({"words": tf.constant(words)}, False)
    (logits,) = expected_logits(
        model, tokenizer, [("New York", "is good", " ")], 12, rows_as_batch
    )
    np.testing.assert_allclose(
        outputs["logits"][0], np.insert(logits, 1, 0, axis=0), atol=1e-5
    )
    assert outputs["words"].numpy().astype(str).tolist() == words
    assert not outputs["logits"][1].numpy().any()


def test_what_does_not_fit(model, tokenizer):
    for length, labels, message in (
        (2, LABELS, "max_seq_length=2 must be at least 3"),
        (41, LABELS, "max_seq_length=41 must be at most 40"),
        (9, LABELS[1:], "there are 3, but the model has 4 outputs"),
    ):
        with pytest.raises(InputError, match=message):
            token_classification_graph(
                model, tokenizer, labels=labels, max_seq_length=length
            )
