"""Outputs of serving graphs equal predictions from features.

Those of question answering are in question_answering/test_serving.py.
"""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.example_texts import (
    make_example,
    served_arrays,
    serving_inputs,
    text_ranks,
)
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
)
from albert_tf.finetuning.serving import ServingGraph
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)

QUESTIONS = [
    "What is good?",
    "The _ was bad",
    "_",
    "__",
    " _ and _ are bad _ \n",
    "\uff3f was \ufe4d",  # Low lines of other scripts.
    "",
    "\u2003What? \x1f",
    "a really bad, bad question of 1,000 words " * 5,
]
OPTIONS = ["film", "", " \u00a0a movie ", "not_it", "the \\0 plot " * 6]
# A word that is all accents, one that is a control character, and one that has
# more pieces than a row.
ODD = ["\u0301 the \u0007 movie", "bad" * 30 + " was " + "good" * 20, "a" * 99]

LABELS = ("O", "B-X", "I-X", "B-Y")


@pytest.fixture(scope="module")
def make_type(tokenizer):
    """Returns `make(task, **settings)`: the task type of a known task."""

    def make(name, **settings):
        task = known_task(name)
        if name == "ner":
            task = dataclasses.replace(task, labels=LABELS)
        return make_task_type(with_settings(task, settings), tokenizer)

    return make


@pytest.fixture(scope="module")
def make_model(serving_config, noisy):
    """Returns `make(task_type)`: a model whose outputs differ."""

    def make(task_type):
        # With one layer, an option may be the best of all questions.
        config = serving_config.replace(num_hidden_layers=2)
        arguments = task_type.model_arguments()
        return noisy(task_type.model_class(config, **arguments))

    return make


def samples(task_type, texts):
    """Returns examples, as texts by name, with each text in each role."""
    names = list(text_ranks(task_type))
    rows = itertools.product(texts, repeat=len(names))
    if task_type.name == "multiple_choice":
        rows = itertools.product(texts, QUESTIONS, [OPTIONS])
    elif task_type.name == "token_classification":
        rows = [[text] for text in [*texts, *ODD]]
    return [dict(zip(names, row, strict=True)) for row in rows]


def predictions_of(task_type, model, examples):
    features = task_type.features(examples, labelled=False)
    outputs = task_type.forward(model, features.pad(range(len(features))))
    rows = [
        {name: x[i].numpy() for name, x in outputs.items()}
        for i in range(len(features))
    ]
    return task_type.predictions(examples, features, rows)


# The shortest length; many rows that are cut; and the model's longest.
@pytest.mark.parametrize(
    ("name", "settings", "packed", "trace"),
    [
        ("sst2", {"max_seq_length": 4}, True, False),
        ("sst2", {"max_seq_length": 17}, True, True),
        ("sst2", {"max_seq_length": 40}, False, False),
        ("mrpc", {"max_seq_length": 5}, True, False),
        ("mrpc", {"max_seq_length": 12}, False, True),
        ("mrpc", {"max_seq_length": 40}, True, False),
        ("mrpc", {"max_seq_length": 5, "head": "pair_features"}, False, False),
        ("mrpc", {"max_seq_length": 40, "head": "pair_features"}, True, True),
        ("stsb", {"max_seq_length": 20}, True, False),
        ("embedding", {"max_seq_length": 4}, True, False),
        ("embedding", {"max_seq_length": 40}, False, True),
        ("race", {"max_seq_length": 4, "max_qa_length": 1}, True, False),
        ("race", {"max_seq_length": 20, "max_qa_length": 17}, True, False),
        ("race", {"max_seq_length": 40, "max_qa_length": 12}, True, True),
        ("ner", {"max_seq_length": 3}, True, False),
        ("ner", {"max_seq_length": 9}, True, True),
        ("ner", {"max_seq_length": 9}, False, False),
        ("ner", {"max_seq_length": 40}, True, False),
    ],
)
def test_graphs_predict_like_features(
    make_type, make_model, texts, name, settings, packed, trace
):
    task_type = make_type(name, **settings)
    model = make_model(task_type)
    given = samples(task_type, texts)
    inputs = serving_inputs(task_type, given)
    examples = [make_example(task_type, x, "") for x in given]
    expected = served_arrays(
        task_type, predictions_of(task_type, model, examples)
    )
    graph = ServingGraph(task_type, model, packed=packed)
    call = tf.function(graph.call, autograph=False) if trace else graph.call
    outputs = call({name: tf.constant(x) for name, x in inputs.items()}, False)
    for output, values in expected.items():
        assert np.ptp(values, axis=0).max() > 0.01
        # Padding, and its removal, change the order of sums in float32.
        np.testing.assert_allclose(outputs[output], values, rtol=0, atol=1e-5)
    empty = call(
        {name: tf.constant(x, tf.string)[:0] for name, x in inputs.items()},
        False,
    )
    assert {x.shape[0] for x in empty.values()} == {0}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mrpc", "must have the same batch size"),
        ("race", "must have as many texts as options has rows"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_columns_of_other_sizes_are_errors(
    make_type, make_model, name, message, size
):
    settings = {"max_qa_length": 9} if name == "race" else {}
    task_type = make_type(name, max_seq_length=20, **settings)
    call = ServingGraph(task_type, make_model(task_type)).call
    [names, *_] = task_type.serving_forms.values()
    for wrong in set(names) - {"options"}:
        inputs = {x: tf.fill([3, 2][: 1 + (x == "options")], "") for x in names}
        inputs[wrong] = tf.fill([size], "")
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call(inputs, False)


def test_texts_are_split_like_str_split_and_words_are_not(
    make_type, make_model
):
    task_type = make_type("ner", max_seq_length=9)
    model = make_model(task_type)
    call = ServingGraph(task_type, model).call
    spaces = [chr(c) for c in range(0x110000) if chr(c).isspace()]
    others = ["\u200b", "\u0008", "\u2060"]
    text = "".join(f"{n}{c}" for n, c in enumerate([*spaces, *others]))
    found = call({"text": tf.constant([text])}, False)["words"][0].numpy()
    assert [word.decode() for word in found] == text.split()
    assert len(found) > 20

    # With a blank inside; and one that is not the end of a sentence is padding.
    words = [["New York", "", "is good", " "], ["", "", "", ""]]
    outputs = call({"words": tf.constant(words)}, False)
    sentence = TokenClassificationExample(
        id="", words=("New York", "is good", " "), location=""
    )
    [expected] = predictions_of(task_type, model, [sentence])
    np.testing.assert_allclose(
        outputs["probabilities"][0],
        np.insert(expected, 1, 0, axis=0),
        atol=1e-5,
    )
    assert outputs["words"].numpy().astype(str).tolist() == words
    assert not outputs["logits"][1].numpy().any()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sst2", {"max_seq_length": 3}, "max_seq_length=3 must be at least 4"),
        ("mrpc", {"max_seq_length": 4}, "max_seq_length=4 must be at least 5"),
        ("embedding", {"max_seq_length": 3}, "length=3 must be at least 4"),
        ("ner", {"max_seq_length": 2}, "max_seq_length=2 must be at least 3"),
        ("race", {"max_qa_length": 510}, "max_qa_length=510 must be at least"),
        ("race", {"max_qa_length": 0}, "max_qa_length=0 m"),
        ("sst2", {"head": "pair_features"}, "pair_features needs two texts"),
        ("mrpc", {"head": "v1"}, "head=v1: .* have cls and pair_features"),
    ],
)
def test_bad_settings(make_type, name, settings, message):
    with pytest.raises(InputError, match=message):
        make_type(name, **settings)
    # The default is not written: older versions read the task.
    assert "head" not in make_type("mrpc", head="cls").task_config.settings
