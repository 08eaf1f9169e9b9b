import numpy as np
import pytest
from scipy import stats
from sklearn.feature_extraction.text import TfidfVectorizer

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.scores import (
    bag_of_words_scores,
    check_metrics,
    embedding_scores,
    mean_embeddings,
)
from albert_tf.finetuning.features import Features


def at(*degrees):
    """Returns vectors on a circle."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_correlations_are_those_of_scipy(examples_of):
    labels = [0.0, 1.0, 3.0, 2.0, 5.0]
    examples = examples_of(*[("a", "b")] * 5, labels=labels)
    angles = [80, 70, 20, 30, 25]
    vectors = at(*[x for angle in angles for x in (0, angle)])
    scores = embedding_scores(examples, vectors)
    cosines = np.cos(np.radians(angles))
    assert list(scores) == ["spearman", "pearson"]
    assert scores["spearman"] == pytest.approx(
        stats.spearmanr(cosines, labels).statistic
    )
    assert scores["pearson"] == pytest.approx(
        stats.pearsonr(cosines, labels).statistic
    )


def test_accuracy_of_retrieval(examples_of):
    examples = examples_of(("a", "b"), ("c", "d"), ("e", "f"))
    # The third positive is closer to the second anchor than its own.
    vectors = at(0, 10, 60, 30, 90, 70)
    assert embedding_scores(examples, vectors) == {"accuracy": 2 / 3}
    # It is the same text: no error.
    examples = examples_of(("a", "b"), ("c", "d"), ("e", "d"))
    assert embedding_scores(examples, vectors) == {"accuracy": 1}
    # It is a positive of the same anchor.
    examples = examples_of(("a", "b"), ("c", "d"), ("c", "f"))
    assert embedding_scores(examples, vectors) == {"accuracy": 1}
    # Hard negatives are candidates, of every anchor.
    examples = examples_of(("a", "b", "g"), ("c", "d", "h"))
    vectors = at(0, 10, 170, 60, 30, 5)
    assert embedding_scores(examples, vectors) == {"accuracy": 0.5}


def test_a_bag_of_words_is_that_of_scikit_learn(examples_of):
    texts = [("a red car", "the red car"), ("a dog", "red"), ("a", "the car")]
    training = examples_of(("the car is red", "one car"), ("a dog", "dogs"))
    scored = examples_of(*texts, labels=[5.0, 0.0, 1.0])
    found = bag_of_words_scores(iter(training), scored)
    words = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True)
    words.fit([t for x in [*training, *scored] for t in x.texts])
    cosines = [
        words.transform([a]).multiply(words.transform([b])).sum()
        for a, b in texts
    ]
    expected = stats.spearmanr(cosines, [5, 0, 1]).statistic
    assert found["bag of words"]["spearman"] == pytest.approx(expected)
    pairs = examples_of(*texts)
    assert bag_of_words_scores([], pairs)["bag of words"] == {"accuracy": 1 / 3}
    assert bag_of_words_scores([], examples_of(("!", "?"))) == {}


def test_the_mean_of_word_embeddings_leaves_special_tokens_out():
    table = np.eye(6, dtype=np.float32)
    features = Features(
        ids=np.array([2, 4, 5, 5, 3, 2, 3], np.int32),
        types=np.zeros(7, np.uint8),
        starts=np.array([0, 5, 7]),
    )
    expected = np.array([[0, 0, 0, 0, 1, 2], [0] * 6]) / np.sqrt(5)
    np.testing.assert_allclose(
        mean_embeddings(table, features), expected, rtol=1e-6
    )


@pytest.mark.parametrize(
    ("metrics", "texts", "labels", "problem"),
    [
        (["f1"], [("a", "b")], None, "metric 'f1': must be one of spearman"),
        (["spearman"], [("a",)], None, "a:0: a single text cannot be scored"),
        (["spearman"], [("a", "b")], None, "without scores; use --metrics=acc"),
        (["accuracy"], [("a", "b")], [1.0], "with scores; use --metrics=spear"),
        (["spearman"], [("a", "b")] * 2, [1.0, None], "a:1: no score, unlike"),
        (
            ["pearson", "accuracy"],
            [("a", "b")] * 2,
            [1.0, 0.0],
            "accuracy cannot be computed from pairs with scores",
        ),
    ],
)
def test_what_cannot_be_scored(metrics, texts, labels, problem, examples_of):
    with pytest.raises(InputError, match=problem):
        check_metrics(metrics, examples_of(*texts, labels=labels))
