"""Exports of models that answer questions, against `Predictor`."""

import json

import pytest

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
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


@pytest.fixture(scope="module")
def exported(make_finetuned, tmp_path_factory):
    """Task -> (source, export, file of expected outputs)."""
    folder = tmp_path_factory.mktemp("tasks")
    exported = {}
    for task, settings in {
        "squad1.1": {},
        # As tuned on a development set; some of the examples are below it.
        "squad2.0": {"null_threshold": 0.0},
    }.items():
        model = make_finetuned(task, **SETTINGS, **settings)
        predictor = Predictor([model])
        predictions = predictor.predict_examples(EXAMPLES).predictions
        expected = {
            "question": [x.question for x in EXAMPLES],
            "context": [x.context for x in EXAMPLES],
            "outputs": [
                expected_outputs(x, predictor.task_type.null_threshold)
                for x in predictions
            ],
        }
        path = folder / f"{task}.json"
        path.write_text(json.dumps(expected))
        export(ExportConfig(model=model, output=folder / task, kind="task"))
        exported[task] = model, folder / task, path
    return exported


@pytest.mark.parametrize("task", ["squad1.1", "squad2.0"])
def test_outputs_are_those_of_the_source(exported, assert_same_as_source, task):
    model, folder, _ = exported[task]
    values = json.loads((folder / "export.json").read_text())
    assert values["task"] == json.loads((model / "task.json").read_text())
    assert_same_as_source(model, folder)


def test_answers_in_tensorflow_are_those_of_the_predictor(
    exported, run_program
):
    paths = [path for _, *paths in exported.values() for path in paths]
    run_program("answers.py", *paths)
