import io
import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.answers import (
    AnswerFiles,
    AnswerPrediction,
    AnswerText,
    QuestionAnswers,
    QuestionScores,
    answer_questions,
)
from albert_tf.finetuning.question_answering.metrics import squad_v1
from albert_tf.finetuning.registry import known_task, make_task_type


def answers_of(question, texts, null_score):
    return QuestionAnswers(
        id=question,
        best=tuple(
            AnswerText(
                text=text,
                start=0,
                end=len(text),
                probability=1 / len(texts),
                start_score=-0.5 - i,
                end_score=-1.5,
            )
            for i, text in enumerate(texts)
        ),
        null_score=null_score,
    )


ANSWERS = [
    answers_of("q1", ["in Zürich", 'a "b"\n'], -2.5),
    answers_of('q"2', ["x"], 3.0),
]


@pytest.mark.parametrize(
    ("task", "changes", "threshold"),
    [
        ("squad2.0", {}, 0.0),
        ("squad2.0", {"null_threshold": 2.0}, 2.0),
        ("squad1.1", {"head": "joint"}, None),
    ],
)
def test_a_threshold_that_was_not_tuned(task, changes, threshold):
    """A model without a development set answers nothing, too."""
    task_type = make_task_type(known_task(task).with_settings(changes))
    assert task_type.null_threshold == threshold
    likely = answers_of("q", ["x"], 1.0)
    record = task_type.record(likely, AnswerPrediction(None, likely))
    assert record["answer"] == ("" if threshold == 0 else "x")


def written(answers, joint=True, **kwargs):
    files = {name: io.StringIO() for name in ("predictions", "nbest")}
    if joint:
        files["null_odds"] = io.StringIO()
    with AnswerFiles(list(files.values()), **kwargs) as writer:
        for answer in answers:
            writer.write([answer])
    return {name: file.getvalue() for name, file in files.items()}


def as_original(content):
    """How the original writes a file."""
    return json.dumps(content, indent=4) + "\n"


def test_files_are_those_of_the_original():
    assert written(ANSWERS) == {
        "predictions": as_original({"q1": "in Zürich", 'q"2': "x"}),
        "nbest": as_original(
            {
                "q1": [
                    {
                        "text": "in Zürich",
                        "probability": 0.5,
                        "start_log_prob": -0.5,
                        "end_log_prob": -1.5,
                    },
                    {
                        "text": 'a "b"\n',
                        "probability": 0.5,
                        "start_log_prob": -1.5,
                        "end_log_prob": -1.5,
                    },
                ],
                'q"2': [
                    {
                        "text": "x",
                        "probability": 1.0,
                        "start_log_prob": -0.5,
                        "end_log_prob": -1.5,
                    }
                ],
            }
        ),
        "null_odds": as_original({"q1": -2.5, 'q"2': 3.0}),
    }


def test_a_threshold_leaves_predictions_empty():
    files = {name: json.loads(x) for name, x in written(ANSWERS).items()}
    empty = {
        name: json.loads(x)
        for name, x in written(ANSWERS, threshold=0.0).items()
    }
    assert empty.pop("predictions") == {"q1": "in Zürich", 'q"2': ""}
    assert empty == {name: files[name] for name in empty}


def test_without_questions_or_null_scores():
    assert set(written([]).values()) == {as_original({})}
    plain = written([answers_of("q", ["x"], None)], joint=False)
    assert plain["predictions"] == as_original({"q": "x"})


def test_scores_of_the_labels_give_the_right_answers(
    read, google_tokenizer, windows_of
):
    """Through features, decoding and metric; 99.7 % on every fourth of dev."""
    examples = read("data", "squad", "dev-v1.1.json.gz")[::50]
    windows = windows_of(examples, google_tokenizer, labelled=True)

    def row(window):
        start, end = np.zeros((2, window.length))
        if not window.is_impossible:
            start[window.start_position] = end[window.end_position] = 1
        return {"start_logits": start, "end_logits": end}

    answers = answer_questions(
        [
            QuestionScores(
                id=example.id,
                context=example.context,
                windows=each,
                members=[[row(window) for window in each]],
            )
            for example, each in zip(examples, windows, strict=True)
        ]
    )
    scores = squad_v1(
        {x.id: [answer.text for answer in x.answers] for x in examples},
        {each.id: each.text() for each in answers},
    )
    assert scores["exact_match"] > 98


def test_questions_of_two_files_with_one_id(make_example):
    """Their answers would be mixed up, as scores are by id."""
    task_type = make_task_type(known_task("squad1.1"))
    examples = [make_example("It is red.", answer="red")] * 2
    with pytest.raises(InputError, match="x.json, q: a question of another"):
        task_type.check_scores(examples)
