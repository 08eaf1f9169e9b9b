import gzip
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.metrics.squad import (
    missing_ids,
    normalize_answer,
    question_scores,
    squad_v1,
    squad_v2,
)


@pytest.fixture(scope="module")
def squad(shared):
    """Returns `squad(name)`: right answers, predictions or scores."""

    def read(name):
        path = shared("data", "squad", name)
        open_ = gzip.open if path.suffix == ".gz" else open
        with open_(path, "rt", encoding="utf-8") as file:
            content = json.load(file)
        if "data" not in content:
            return content
        return {
            question["id"]: [answer["text"] for answer in question["answers"]]
            for article in content["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        }

    return read


def test_official_scores_of_1_1(squad):
    answers = squad("dev-v1.1.json.gz")
    predictions = squad("dev-predictions/v1.1-match-lstm-ensemble.json")
    exact, f1, total = squad("expected_scores.json")["v1.1"][
        "match-lstm-ensemble"
    ]
    assert squad_v1(answers, predictions) == {
        "exact_match": exact,
        "f1": f1,
        "total": total,
        "missing": 0,
    }
    by_v2 = squad_v2(answers, predictions)
    assert (by_v2["exact"], by_v2["f1"], by_v2["total"]) == (exact, f1, total)


def test_official_scores_of_2_0(squad):
    answers = squad("dev-v2.0.reconstructed.json.gz")
    [(key, values)] = [
        (key, systems["bidaf-elmo"])
        for key, systems in squad("expected_scores.json").items()
        if key.startswith("v2.0")
    ]
    names = key[key.index("(") + 1 : -1].split(",")
    scores = squad_v2(answers, squad("dev-predictions/v2.0-bidaf-elmo.json"))
    wanted = dict(zip(names, values, strict=True))
    assert {name: scores[name] for name in names} == wanted
    assert scores["total"] == scores["HasAns_total"] + scores["NoAns_total"]
    assert (scores["NoAns_total"], scores["missing"]) == (5945, 0)


def test_missing_predictions_score_0_and_are_told(squad):
    """A file that the official script of 2.0 stops at."""
    answers = squad("dev-v1.1.json.gz")
    predictions = squad("dev-predictions/v1.1-logistic-regression.json")
    missing = missing_ids(answers, predictions)
    assert len(missing) == 13
    scores = squad_v1(answers, predictions)
    assert (scores["total"], scores["missing"]) == (10570, 13)
    filled = predictions | dict.fromkeys(missing, "wrong")
    assert squad_v2(answers, filled)["f1"] == scores["f1"]


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  «Big»-Apple, a\tcity.", "«big»apple city"),
        ("U.S.A.", "usa"),
        ("an 'An'", ""),
        ("Theatre", "theatre"),
        ("the1", "the1"),
        ("Ἀ the", "ἀ"),
    ],
)
def test_normalize_answer(text, normalized):
    assert normalize_answer(text) == normalized


def test_scores_by_hand():
    answers = {"1": ["the red car", "car"], "2": ["blue bus stop"], "3": ["a"]}
    predictions = {"1": "Red car!", "2": "a bus", "3": "the", "4": "none asked"}
    scores = squad_v1(answers, predictions)
    assert scores["exact_match"] == pytest.approx(200 / 3)
    # 1.1 gives no F1 where no word is left, 2.0 does.
    assert scores["f1"] == pytest.approx(100 * (1 + 0.5 + 0) / 3)
    assert squad_v2(answers, predictions)["f1"] == pytest.approx(
        100 * (1 + 0.5 + 1) / 3
    )


def test_questions_without_an_answer():
    answers = {"1": [], "2": [], "3": ["x"]}
    predictions = {"1": "", "2": "x", "3": ""}
    assert question_scores(answers, predictions) == (
        {"1": 1, "2": 0, "3": 0},
        {"1": 1, "2": 0, "3": 0},
    )
    scores = squad_v2(answers, predictions)
    assert (scores["NoAns_exact"], scores["HasAns_f1"]) == (50, 0)
    with pytest.raises(InputError, match="question 1: .* no questions without"):
        squad_v1(answers, predictions)
    with pytest.raises(InputError, match="no question to score"):
        squad_v2({}, {})
