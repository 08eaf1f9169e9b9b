"""Exports of models that answer questions, against `Predictor`."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.examples.example import SpanExample
from albert_tf.tasks.exporting.export_checkpoint import export_checkpoint
from albert_tf.tasks.finetuning.prediction import Predictor

pytestmark = pytest.mark.long

SETTINGS = {"max_seq_length": 32, "doc_stride": 9, "max_query_length": 8}
EXAMPLES = [
    SpanExample(id=str(n), question=question, context=context, place="")
    for n, (question, context) in enumerate(
        [
            ("What is a class?", "A class is a list of functions."),
            ("Which module?", "  Étude naïve: the module 12,345. " * 5),
            ("Who?", "Nobody."),
            ("What is the value of the name of a long question?", "A name."),
        ]
    )
]


@pytest.mark.parametrize("task", ["squad1.1", "squad2.0"])
def test_answers_are_the_predictors(
    task, make_finetuned, assert_answers_are_compared, tmp_path
):
    if task == "squad2.0":
        # What a development set decides; here some are above and some below.
        model = make_finetuned(task, null_threshold=0.0, **SETTINGS)
    else:
        model = make_finetuned(task, **SETTINGS)
    predictor = Predictor([model])
    description = predictor.kind.description
    predictions = predictor(EXAMPLES).predictions
    export_checkpoint(model, tmp_path / "task", "task")
    values = json.loads((tmp_path / "task" / "export.json").read_text())
    assert values["task"] == json.loads(description.to_json())
    outputs = tf.saved_model.load(tmp_path / "task").signatures[
        "serving_default"
    ](
        question=tf.constant([x.question for x in EXAMPLES]),
        context=tf.constant([x.context for x in EXAMPLES]),
    )
    for example, prediction, answer, start, limit in zip(
        EXAMPLES,
        predictions,
        outputs["answer"].numpy(),
        outputs["start"].numpy(),
        outputs["limit"].numpy(),
        strict=True,
    ):
        assert (
            answer.decode()
            == predictor.kind.record(example, prediction)["answer"]
        )
        if start >= 0:
            assert example.context[start:limit] == answer.decode()
    assert_answers_are_compared(model, tmp_path / "task")
    assert ("null_odds" in outputs) == (task == "squad2.0")
    if task == "squad2.0":
        np.testing.assert_allclose(
            outputs["null_odds"],
            [prediction.answers.null_score for prediction in predictions],
            atol=1e-4,  # float32 sums in another order
        )
