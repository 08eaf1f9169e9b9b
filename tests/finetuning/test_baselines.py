"""Baselines against scikit-learn's, and counted by hand."""

import warnings

import numpy as np
import pytest
from sklearn import dummy, metrics
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from albert_tf.finetuning.multiple_choice.examples import MultipleChoiceExample
from albert_tf.finetuning.question_answering.examples import (
    Answer,
    QuestionAnsweringExample,
)
from albert_tf.finetuning.registry import known_task, make_task_type
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)

GOOD, BAD = "warm funny bright clever".split(), "dull weak slow flat".split()


def texts(count, seed, pairs=False):
    """Examples of which 60 % are good, with one or two words that tell it."""
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        label = int(rng.random() < 0.6)
        words = [*rng.choice([BAD, GOOD][label], 2), "a", "film", "."]
        text = " ".join(rng.permutation(words))
        pair = " ".join(rng.permutation(words[: 2 + label])) if pairs else None
        examples.append(
            TextExample(
                id=str(number),
                location="",
                text=text,
                pair=pair,
                label=str(label),
            )
        )
    return examples


def test_the_most_frequent_label_is_that_of_scikit_learn():
    training, scored = texts(200, 0, pairs=True), texts(50, 1, pairs=True)
    found = make_task_type(known_task("mrpc")).baselines(iter(training), scored)
    assert list(found) == ["most frequent label", "bag of words"]
    y, truth = ([int(x.label) for x in part] for part in (training, scored))
    constant = dummy.DummyClassifier(strategy="prior").fit(y, y)
    guesses = constant.predict(truth)
    scores = found["most frequent label"]
    assert scores["accuracy"] == metrics.accuracy_score(truth, guesses)
    assert scores["f1"] == metrics.f1_score(truth, guesses)
    # The frequencies are those of half an example more of each label.
    loss = metrics.log_loss(truth, constant.predict_proba(truth))
    assert scores["loss"] == pytest.approx(loss, rel=1e-3)
    assert found["bag of words"]["accuracy"] > scores["accuracy"]


def test_a_bag_of_words_is_a_pipeline_of_scikit_learn():
    training, scored = texts(60, 0), texts(200, 1)
    training[0] = texts(1, 9)[0]
    found = make_task_type(known_task("cola")).baselines(training, scored)
    pipeline = make_pipeline(
        TfidfVectorizer(
            token_pattern=r"\w+", ngram_range=(1, 2), sublinear_tf=True
        ),
        LogisticRegression(max_iter=2000),
    ).fit([x.text for x in training], [x.label for x in training])
    expected = metrics.matthews_corrcoef(
        [x.label for x in scored], pipeline.predict([x.text for x in scored])
    )
    assert found["bag of words"]["matthews"] == pytest.approx(expected)
    assert found["most frequent label"]["matthews"] == 0


def test_chinese_has_words_and_punctuation_has_none():
    def examples(rows):
        return [
            TextExample(id=str(n), location="", text=text, label=label)
            for n, (text, label) in enumerate(rows)
        ]

    task_type = make_task_type(known_task("sst2"))
    training = examples([("这部电影很好", "1"), ("这部电影很差", "0")] * 3)
    scored = examples([("好书", "1"), ("差的书", "0")])
    found = task_type.baselines(training, scored)
    assert found["bag of words"]["accuracy"] == 1
    training = examples([("!", "1"), ("?", "0")])
    assert "bag of words" not in task_type.baselines(training, training)
    # A single label: there is nothing to learn.
    training = examples([("a", "1")] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = task_type.baselines(training, scored)
    assert found["bag of words"] == {"accuracy": 0.5}


def numbers(count, seed):
    rng = np.random.default_rng(seed)
    words = [f"w{n}" for n in range(40)]
    examples = []
    for number in range(count):
        text = rng.choice(words, 6, replace=False)
        shared = rng.integers(7)
        pair = [*text[:shared], *(f"x{n}" for n in range(6 - shared))]
        examples.append(
            TextExample(
                id=str(number),
                location="",
                text=" ".join(text),
                pair=" ".join(pair),
                label=float(shared),
            )
        )
    return examples


def test_the_mean_label_has_no_correlation():
    training, scored = numbers(120, 0), numbers(60, 1)
    found = make_task_type(known_task("stsb")).baselines(training, scored)
    y, truth = (np.array([x.label for x in p]) for p in (training, scored))
    mean = found["mean label"]
    assert np.isnan(mean["pearson"])
    assert np.isnan(mean["spearman"])
    guesses = dummy.DummyRegressor().fit(y, y).predict(truth)
    expected = metrics.mean_squared_error(truth, guesses)
    assert mean["loss"] == pytest.approx(expected)
    assert found["bag of words"]["pearson"] > 0.9


def sentences(*rows):
    return [
        TokenClassificationExample(
            id=str(n),
            location="",
            words=tuple(row.split()[::2]),
            labels=tuple(row.split()[1::2]),
        )
        for n, row in enumerate(rows)
    ]


def test_words_have_their_most_frequent_label():
    training = sentences(
        "Ann B-PER saw O Bern B-LOC", "Bern B-PER saw O it O", "in O Bern B-LOC"
    )
    scored = sentences("Ann B-PER left O Bern B-LOC", "Carl B-PER saw O Ann O")
    found = make_task_type(known_task("ner")).baselines(training, scored)
    constant, known = found.values()
    assert constant == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 3 / 6}
    # Right: Ann, Bern; missed: Carl; wrong: the second Ann.
    assert known["precision"] == known["recall"] == pytest.approx(2 / 3)
    assert known["accuracy"] == pytest.approx(4 / 6)


def test_options_have_positions_and_chance():
    def questions(*rows):
        return [
            MultipleChoiceExample(
                id=str(n),
                location="",
                passage="a",
                question="b",
                options=tuple("cdefg"[:count]),
                label=label,
            )
            for n, (label, count) in enumerate(rows)
        ]

    training = questions((2, 3), (2, 3), (1, 3))
    scored = questions((2, 3), (1, 2), (0, 4), (2, 4))
    found = make_task_type(known_task("dream")).baselines(training, scored)
    assert found == {
        "most frequent position": {"accuracy": 3 / 4},
        "chance": {"accuracy": pytest.approx((1 / 3 + 1 / 2 + 1 / 2) / 4)},
    }


def test_answers_are_none_or_the_most_similar_sentence():
    def question(id, text, answer):
        context = "Ann was born in Bern. She wrote books."
        answers = [Answer(text=answer, start=context.index(answer))]
        return QuestionAnsweringExample(
            id=id,
            location="",
            question=text,
            context=context,
            answers=answers if answer else [],
            is_impossible=not answer,
        )

    scored = [
        question("1", "Where was Ann born?", "Bern"),
        question("2", "What did she write?", "She wrote books."),
        question("3", "Who was it?", ""),
    ]
    found = make_task_type(known_task("squad2.0")).baselines(iter(()), scored)
    assert found["no answer"] == {
        "f1": pytest.approx(100 / 3),
        "exact": pytest.approx(100 / 3),
    }
    # One of five words is right; all are.
    f1 = 2 * (1 / 5) * 1 / (1 / 5 + 1)
    assert found["most similar sentence"] == {
        "f1": pytest.approx(100 * (f1 + 1) / 3),
        "exact": pytest.approx(100 / 3),
    }
    found = make_task_type(known_task("squad1.1")).baselines(
        iter(()), scored[:2]
    )
    assert list(found) == ["most similar sentence"]
