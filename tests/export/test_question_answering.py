"""Exports of models that answer questions, against `Predictor`."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.manifest import read_export
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.question_answering.examples import (
    QuestionAnsweringExample,
)

pytestmark = pytest.mark.long

SETTINGS = {"max_seq_length": 32, "doc_stride": 9, "max_query_length": 8}
EXAMPLES = [
    QuestionAnsweringExample(
        id=str(n), question=question, context=context, location=""
    )
    for n, (question, context) in enumerate(
        [
            ("What is a class?", "A class is a list of functions."),
            ("Which module?", "  Étude naïve: the module 12,345. " * 5),
            ("Who?", "Nobody."),
            ("What is the value of the name of a long question?", "A name."),
        ]
    )
]


def expected_outputs(prediction, null_threshold):
    """Returns the outputs of the exported model as JSON values."""
    answers = prediction.answers
    best = answers.best[0]
    outputs = {
        "answer": answers.text(null_threshold),
        "start": best.start,
        "end": best.end,
        "score": best.start_score + best.end_score,
        "probability": best.probability,
    }
    has_answer = best.start is not None
    if answers.null_score is not None:
        outputs["null_odds"] = answers.null_score
        has_answer &= answers.null_score <= null_threshold
    if not has_answer:
        outputs["start"] = outputs["end"] = -1
    return outputs


def check_answers(outputs, expected):
    names = set(expected[0])
    assert set(outputs) == {*names, "start_byte", "end_byte"}
    outputs = {name: x.numpy() for name, x in outputs.items()}
    for n, (example, record) in enumerate(zip(EXAMPLES, expected, strict=True)):
        answer, context = outputs["answer"][n].decode(), example.context
        assert answer == record["answer"]
        start, end = outputs["start"][n], outputs["end"][n]
        assert (start, end) == (record["start"], record["end"])
        if start >= 0:
            assert context[start:end] == answer
            first, last = outputs["start_byte"][n], outputs["end_byte"][n]
            assert context.encode()[first:last].decode() == answer
    for name in names & {"score", "probability", "null_odds"}:
        wanted = [record[name] for record in expected]
        np.testing.assert_allclose(outputs[name], wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("squad1.1", {}),
        # As tuned on a development set; some of the examples are below it.
        ("squad2.0", {"null_threshold": 0.0}),
    ],
)
def test_answers_are_those_of_the_predictor(
    make_finetuned, assert_same_as_source, tmp_path, task, settings
):
    source = make_finetuned(task, **SETTINGS, **settings)
    folder = tmp_path / "e"
    export(ExportConfig(model=source, output=folder, kind="task"))
    values = read_export(folder)
    assert values["task"] == json.loads((source / "task.json").read_text())
    assert_same_as_source(source, folder)

    predictor = Predictor([source])
    threshold = predictor.task_type.null_threshold
    predictions = predictor.predict_examples(EXAMPLES).predictions
    expected = [expected_outputs(x, threshold) for x in predictions]
    exported = tf.saved_model.load(folder)
    serve = exported.signatures["serving_default"]
    question = tf.constant([x.question for x in EXAMPLES])
    context = tf.constant([x.context for x in EXAMPLES])
    inputs = {"question": question, "context": context}
    check_answers(exported(inputs), expected)
    check_answers(exported([question, context], training=False), expected)
    check_answers(serve(**inputs), expected)
    # Servers read the shapes of outputs.
    assert {x.shape.rank for x in serve.structured_outputs.values()} == {1}
    empty = serve(question=question[:0], context=context[:0])
    assert empty["answer"].shape == 0
    drawn = [exported(inputs, training=True)["score"] for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3
    assert len(exported.trainable_variables) > 10
