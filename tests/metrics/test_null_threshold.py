import itertools

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.metrics.null_threshold import apply_threshold, best_thresholds
from albert_tf.metrics.squad import squad_v2


def random_case(generator, questions=12):
    """Questions, some of equal null score, some not predicted, some above 1."""
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


@pytest.mark.parametrize("name", ["exact", "f1"])
def test_no_threshold_is_better(name):
    generator = np.random.default_rng(0)
    for _ in range(40):
        answers, predictions, null_scores = random_case(generator)
        found = best_thresholds(answers, predictions, null_scores)
        scores = {
            threshold: squad_v2(
                answers, apply_threshold(predictions, null_scores, threshold)
            )[name]
            for threshold in np.arange(-5, 5, 0.25)
        }
        best = max(scores.values())
        assert found[f"best_{name}"] == pytest.approx(best, abs=1e-9)
        # What is found is what prediction by the threshold gives.
        threshold = found[f"best_{name}_thresh"]
        assert (
            found[f"best_{name}"]
            == squad_v2(
                answers, apply_threshold(predictions, null_scores, threshold)
            )[name]
        )


def test_a_question_at_the_threshold_is_answered():
    answers = {"a": ["x"], "b": ["x"], "c": []}
    predictions = dict.fromkeys(answers, "x")
    null_scores = {"a": 1.5, "b": 2.5, "c": 4.0}  # All above the script's 1.0.
    assert best_thresholds(answers, predictions, null_scores) == {
        "best_exact": 100.0,
        "best_exact_thresh": 2.5,
        "best_f1": 100.0,
        "best_f1_thresh": 2.5,
    }
    assert apply_threshold(predictions, null_scores, 2.5) == {
        "a": "x",
        "b": "x",
        "c": "",
    }


def test_equal_null_scores_stay_together():
    answers = {"a": ["x"], "b": [], "c": []}
    predictions = dict.fromkeys(answers, "x")
    for order in itertools.permutations(answers):
        found = best_thresholds(
            answers, predictions, dict.fromkeys(order, -3.0)
        )
        assert found["best_f1"] == pytest.approx(200 / 3)
        assert found["best_f1_thresh"] == -4.0


@pytest.mark.parametrize("null_scores", [{"a": 0.0}, {"a": 0.0, "b": None}])
def test_missing_null_score_is_named(null_scores):
    with pytest.raises(InputError, match="question b: .* no null score"):
        best_thresholds({"a": [], "b": []}, {"a": "", "b": ""}, null_scores)
