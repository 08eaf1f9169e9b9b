"""Exports of models that answer questions, against `Predictor`."""

import json

import pytest

from albert_tf.export.export import export
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
    """Returns the outputs of an exported model, as JSON values."""
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


@pytest.mark.parametrize("task", ["squad1.1", "squad2.0"])
def test_answers_are_the_predictors(
    task, make_finetuned, assert_same_as_source, run_program, tmp_path
):
    if task == "squad2.0":
        # What a development set decides; here some are above and some below.
        model = make_finetuned(task, null_threshold=0.0, **SETTINGS)
    else:
        model = make_finetuned(task, **SETTINGS)
    predictor = Predictor([model])
    task_config = predictor.task_type.task_config
    predictions = predictor(EXAMPLES).predictions
    export(model, tmp_path / "task", "task")
    values = json.loads((tmp_path / "task" / "export.json").read_text())
    assert values["task"] == json.loads(task_config.to_json())
    expected = {
        "question": [x.question for x in EXAMPLES],
        "context": [x.context for x in EXAMPLES],
        "outputs": [
            expected_outputs(x, predictor.task_type.null_threshold)
            for x in predictions
        ],
    }
    (tmp_path / "expected.json").write_text(json.dumps(expected))
    run_program("answers.py", tmp_path / "task", tmp_path / "expected.json")
    assert_same_as_source(model, tmp_path / "task")
