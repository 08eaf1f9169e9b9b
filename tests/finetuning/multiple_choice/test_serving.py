"""The graph of choices, against the rows that models are trained on."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.multiple_choice.examples import MultipleChoiceExample
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.multiple_choice.serving import multiple_choice_graph
from albert_tf.finetuning.multiple_choice.task import choice_features

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
    return noisy(AlbertMultipleChoice(serving_config))


def expected_logits(model, tokenizer, examples, rows_as_batch, **lengths):
    logits = []
    for features in choice_features(examples, tokenizer, **lengths):
        rows = list(zip(features.ids, features.types, strict=True))
        batch = rows_as_batch(rows, tokenizer)
        logits.append(model({n: x[None] for n, x in batch.items()})[0])
    return np.array(logits)


# 4 and 1: the shortest that there are.
@pytest.mark.parametrize("lengths", [(40, 12), (20, 17), (4, 1)])
def test_choices(model, tokenizer, texts, rows_as_batch, lengths):
    lengths = dict(
        zip(("max_seq_length", "max_qa_length"), lengths, strict=True)
    )
    examples = [
        MultipleChoiceExample(
            id="", passage=text, question=question, options=OPTIONS, location=""
        )
        for text in texts
        for question in QUESTIONS
    ]
    graph = multiple_choice_graph(model, tokenizer, **lengths)
    outputs = tf.function(graph.call)(
        {
            "context": tf.constant([x.passage for x in examples]),
            "question": tf.constant([x.question for x in examples]),
            "options": tf.constant([x.options for x in examples]),
        },
        False,
    )
    logits = expected_logits(
        model, tokenizer, examples, rows_as_batch, **lengths
    )
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
    if lengths["max_qa_length"] > 1:
        assert len(set(outputs["choice"].numpy())) > 1


def test_lengths_that_do_not_fit(model, tokenizer):
    for longest, of_question, message in (
        (20, 18, "max_qa_length=18 must be at least 1"),
        (20, 0, "max_qa_length=0 must be at least 1"),
        (41, 8, "max_seq_length=41 must be at most 40"),
    ):
        with pytest.raises(InputError, match=message):
            multiple_choice_graph(
                model,
                tokenizer,
                max_seq_length=longest,
                max_qa_length=of_question,
            )
