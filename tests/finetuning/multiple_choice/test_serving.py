"""Outputs of the serving graph equal those of the model on features."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.examples import MultipleChoiceExample
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
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


@pytest.fixture(scope="module")
def model(serving_config, noisy):
    # With one layer, an option may be the best of all questions.
    config = serving_config.replace(num_hidden_layers=2)
    return noisy(AlbertMultipleChoice(config))


def make_type(tokenizer, length, of_question):
    lengths = {"max_seq_length": length, "max_qa_length": of_question}
    return make_task_type(with_settings(known_task("race"), lengths), tokenizer)


# 4 and 1 are the minimum.
@pytest.mark.parametrize("lengths", [(40, 12), (20, 17), (4, 1)])
def test_choices(model, tokenizer, texts, lengths):
    examples = [
        MultipleChoiceExample(
            id="", passage=text, question=question, options=OPTIONS, location=""
        )
        for text in texts
        for question in QUESTIONS
    ]
    task_type = make_type(tokenizer, *lengths)
    graph = task_type.serving_graph(model)
    inputs, _ = task_type.serving_arrays(examples, [])
    inputs = {name: tf.constant(x) for name, x in inputs.items()}
    trace = lengths == (40, 12)
    call = tf.function(graph.call, autograph=False) if trace else graph.call
    outputs = call(inputs, False)
    rows = task_type.features(examples, labelled=False)
    batch = rows.pad(range(len(rows)))
    logits = task_type.forward(model, batch)["logits"]
    logits = np.reshape(logits, [len(examples), len(OPTIONS)])
    # Padding, and its removal, change the order of sums in float32.
    np.testing.assert_allclose(outputs["logits"], logits, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        outputs["probabilities"], tf.nn.softmax(logits), rtol=0, atol=1e-5
    )
    # Of options with equal rows, rounding decides.
    chosen = np.take_along_axis(
        logits, outputs["choice"].numpy()[:, None], axis=1
    )
    assert (chosen[:, 0] >= logits.max(axis=1) - 1e-5).all()
    # One token of question and option: most rows of an example are equal.
    if lengths[1] > 1:
        assert len(set(outputs["choice"].numpy())) > 1


def test_lengths_out_of_bounds(model, tokenizer):
    for of_question in (18, 0):
        with pytest.raises(InputError, match=f"max_qa_length={of_question} m"):
            make_type(tokenizer, 20, of_question)
    with pytest.raises(InputError, match="max_seq_length=41 must be at most"):
        make_type(tokenizer, 41, 8).serving_graph(model)
