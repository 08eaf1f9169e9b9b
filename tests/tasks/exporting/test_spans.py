"""Exports of models that answer questions, against `Predictor`."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.examples.example import SpanExample
from albert_tf.tasks.exporting.export_checkpoint import export_checkpoint
from albert_tf.tasks.finetuning.kinds.by_name import make_kind
from albert_tf.tasks.finetuning.known_tasks import KNOWN_TASKS, with_settings
from albert_tf.tasks.finetuning.model_folder import save_model
from albert_tf.tasks.finetuning.prediction import Predictor

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
def test_answers_are_the_predictors(task, small_config, tokenizer, tmp_path):
    description = with_settings(KNOWN_TASKS[task], SETTINGS)
    if task == "squad2.0":
        # What a development set decides; here some are above and some below.
        settings = {**description.settings, "null_threshold": 0.0}
        description = dataclasses.replace(description, settings=settings)
    kind = make_kind(description, tokenizer)
    keras.utils.set_random_seed(4)
    model = kind.model_class(small_config, **kind.model_arguments())
    for weight in model.weights:
        # Without zeros: scores that no two spans share.
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.1))
    save_model(tmp_path / "model", model, kind, description)

    predictor = Predictor([tmp_path / "model"])
    predictions = predictor(EXAMPLES).predictions
    export_checkpoint(tmp_path / "model", tmp_path / "task", "task")
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
    assert ("null_odds" in outputs) == (task == "squad2.0")
    if task == "squad2.0":
        np.testing.assert_allclose(
            outputs["null_odds"],
            [prediction.answers.null_score for prediction in predictions],
            atol=1e-4,  # float32 sums in another order
        )
