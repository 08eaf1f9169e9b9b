import functools
import gzip
import itertools
import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.question_answering.metrics import (
    best_threshold,
    cmrc,
    normalize_answer,
    question_scores,
    squad_v1,
    squad_v2,
)


@pytest.fixture(scope="module")
def squad(shared):
    """Returns `squad(name)`: right answers, predictions or scores."""

    @functools.cache
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


def test_missing_predictions_score_0_and_are_counted(squad):
    """The official script of 2.0 fails on this file."""
    answers = squad("dev-v1.1.json.gz")
    predictions = squad("dev-predictions/v1.1-logistic-regression.json")
    missing = answers.keys() - predictions.keys()
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


def test_scores_of_squad_by_hand():
    answers = {"1": ["the red car", "car"], "2": ["blue bus stop"], "3": ["a"]}
    predictions = {"1": "Red car!", "2": "a bus", "3": "the", "4": "none asked"}
    scores = squad_v1(answers, predictions)
    assert scores["exact_match"] == pytest.approx(200 / 3)
    # Without a word left, F1 is 0 in 1.1, and 1 in 2.0.
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
    for metric in (squad_v1, cmrc):
        with pytest.raises(InputError, match="1: .* no questions without"):
            metric(answers, predictions)
    for metric in (squad_v1, squad_v2, cmrc):
        with pytest.raises(InputError, match="no questions to score"):
            metric({}, {})


def f1_of(predicted, *right):
    return cmrc({"q": right}, {"q": predicted})["f1"] / 100


@pytest.mark.parametrize(
    ("predicted", "right", "f1"),
    [
        ("光荣和ω-force", "光荣和ω-force", 1),
        ("光荣", "光荣和ω-force", 2 * 1 * 0.5 / 1.5),
        # The longest common run counts, not all that is common.
        ("一二三四五", "一二X四五", 2 * 0.4 * 0.4 / 0.8),
        # A word between ideographs is one segment, whatever its case.
        ("在Windows XP上", "windows xp", 2 * 0.5 * 1 / 1.5),
        ("1,200.5元", "1,200.5", 2 * 0.5 * 1 / 1.5),
        ("《红楼梦》", "红楼梦。", 1),
        ("", "红", 0),
        ("。", "。", 0),
        ('"abc".', "abc", 2 * 0.25 * 1 / 1.25),
        ("it's (a) b", "s", 0),
        ("he's", "he", 2 * 0.5 * 1 / 1.5),
        ("a...b", "a", 2 * 1 / 3 / (4 / 3)),
        ("U.S.", "u.s.", 1),
    ],
)
def test_f1_of_cmrc(predicted, right, f1):
    assert f1_of(predicted, right) == pytest.approx(f1)
    assert f1_of(predicted, "龙", right) == pytest.approx(f1)


def test_scores_of_cmrc_by_hand():
    scores = cmrc(
        {"1": ["红楼梦", "石头记"], "2": ["二"], "3": ["三"]},
        {"1": " 《石头记》 ", "2": "一二", "4": "四"},
    )
    assert scores == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 2 / 3) / 3),
        "average": pytest.approx(100 * (2 + 2 / 3) / 6),
        "total": 3,
        "missing": 1,
    }


def test_right_answers_of_cmrc_score_100(shared):
    data = json.loads(
        shared("data", "cmrc2018", "cmrc2018_dev.json").read_text("utf-8")
    )["data"]
    answers = {
        question["id"]: [answer["text"] for answer in question["answers"]]
        for article in data
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    right = {question: texts[0] for question, texts in answers.items()}
    scores = cmrc(answers, right)
    assert (scores["total"], scores["missing"]) == (3219, 0)
    assert scores["f1"] == scores["exact_match"] == 100
    # The third person against the other two of each question.
    some = list(answers)[::5]
    human = cmrc(
        {question: answers[question][:-1] for question in some},
        {question: answers[question][-1] for question in some},
    )
    assert 90 < human["f1"] < 97


def random_case(generator, questions=12):
    """Questions, some with equal null scores, some without a prediction."""
    ids = [str(i) for i in range(questions)]
    texts = ["", "red car", "red bus", "bus"]
    answers = {
        i: [str(generator.choice(texts[1:]))]
        if generator.random() < 0.5
        else []
        for i in ids
    }
    predictions = {i: str(generator.choice(texts)) for i in ids[:-1]}
    null_scores = {i: int(generator.integers(-4, 8)) / 2 for i in ids}
    return answers, predictions, null_scores


def apply_threshold(predictions, null_scores, threshold):
    return {
        question: "" if null_scores[question] > threshold else text
        for question, text in predictions.items()
    }


def test_best_threshold_is_optimal():
    generator = np.random.default_rng(0)
    for _ in range(40):
        answers, predictions, null_scores = random_case(generator)

        def f1(threshold, answers=answers, given=(predictions, null_scores)):
            return squad_v2(answers, apply_threshold(*given, threshold))["f1"]

        found = best_threshold(answers, predictions, null_scores)
        best = max(map(f1, np.arange(-5, 5, 0.25)))
        assert f1(found) == pytest.approx(best, abs=1e-9)


def test_a_question_at_the_threshold_is_answered():
    answers = {"a": ["x"], "b": ["x"], "c": []}
    predictions = dict.fromkeys(answers, "x")
    null_scores = {"a": 1.5, "b": 2.5, "c": 4.0}  # All above the script's 1.0.
    assert best_threshold(answers, predictions, null_scores) == 2.5


def test_equal_null_scores_stay_together():
    answers = {"a": ["x"], "b": [], "c": []}
    predictions = dict.fromkeys(answers, "x")
    for order in itertools.permutations(answers):
        null_scores = dict.fromkeys(order, -3.0)
        assert best_threshold(answers, predictions, null_scores) == -4.0


@pytest.mark.parametrize("null_scores", [{"a": 0.0}, {"a": 0.0, "b": None}])
def test_missing_null_score_is_named(null_scores):
    with pytest.raises(InputError, match="question b: .*no null score"):
        best_threshold({"a": [], "b": []}, {"a": "", "b": ""}, null_scores)
