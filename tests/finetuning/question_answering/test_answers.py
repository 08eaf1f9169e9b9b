import io
import json

from albert_tf.finetuning.question_answering.answers import (
    AnswerText,
    QuestionAnswers,
    write_answers,
)


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


def written(answers, joint=True, **kwargs):
    files = {name: io.StringIO() for name in ("predictions", "nbest")}
    if joint:
        files["null_odds"] = io.StringIO()
    count = write_answers(iter(answers), **files, **kwargs)
    assert count == len(answers)
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
