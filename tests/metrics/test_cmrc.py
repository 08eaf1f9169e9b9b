import json

import pytest

from albert_tf.errors import InputError
from albert_tf.metrics.cmrc import cmrc


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
def test_f1(predicted, right, f1):
    assert f1_of(predicted, right) == pytest.approx(f1)
    assert f1_of(predicted, "龙", right) == pytest.approx(f1)


def test_scores_by_hand():
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


def test_refuses_questions_without_an_answer():
    with pytest.raises(InputError, match="question q: .* no questions without"):
        cmrc({"q": []}, {})
    with pytest.raises(InputError, match="no question to score"):
        cmrc({}, {})
