"""Baselines of text classification and regression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.errors import import_package
from albert_tf.finetuning.text_classification.examples import TextExample
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
    label_scores,
)

# A bag of words is trained on no more examples than these, drawn at random, so
# that it takes seconds.
_MAX_TRAINING = 20_000

Baselines = dict[str, dict[str, float]]


def class_baselines(
    metrics: Sequence[str],
    labels: Sequence[str],
    training: Iterable[TextExample],
    examples: Sequence[TextExample],
) -> Baselines:
    """Scores the most frequent label, and a bag of words.

    The loss of the first is that of the labels' frequencies as probabilities.
    """
    ids = {label: i for i, label in enumerate(labels)}
    training = list(training)
    targets = np.array([ids[str(x.label)] for x in training])
    truth = np.array([ids[str(x.label)] for x in examples])
    # Half an example more of each, so that no label is impossible.
    counts = np.bincount(targets, minlength=len(labels)) + 0.5
    constant = label_scores(
        metrics, [counts / counts.sum()] * len(truth), truth.tolist()
    )
    return {
        "most frequent label": constant,
        **_bag_of_words(metrics, training, targets, examples, truth),
    }


def number_baselines(
    metrics: Sequence[str],
    training: Iterable[TextExample],
    examples: Sequence[TextExample],
) -> Baselines:
    """Scores the mean label, and a bag of words.

    Correlations with a constant are not defined: the mean has only a loss.
    """
    training = list(training)
    targets = np.array([x.label for x in training], float)
    truth = np.array([x.label for x in examples], float)
    return {
        "mean label": {
            **dict.fromkeys(metrics, np.nan),
            "loss": float(np.mean((targets.mean() - truth) ** 2)),
        },
        **_bag_of_words(metrics, training, targets, examples, truth),
    }


def _bag_of_words(
    metrics: Sequence[str],
    training: Sequence[TextExample],
    targets: np.ndarray,
    examples: Sequence[TextExample],
    truth: np.ndarray,
) -> Baselines:
    """Returns the scores of a bag of words; {} if there are no words."""
    if len(training) > _MAX_TRAINING:
        drawn = np.random.default_rng(0).choice(
            len(training), _MAX_TRAINING, replace=False
        )
        training = [training[i] for i in drawn]
        targets = targets[drawn]
    try:
        predictions = _predictions(metrics[0], training, targets, examples)
    except ValueError as error:
        if "empty vocabulary" in str(error) or "no terms" in str(error):
            return {}
        raise
    return {"bag of words": classification_metrics(metrics, predictions, truth)}


# Words, also of one letter, and single ideographs and kana, as Chinese and
# Japanese have no blanks between words.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = rf"(?u)[{_CJK}]|[^\W{_CJK}]+"
_STRENGTHS = (0.1, 1.0, 10.0, 100.0)
# With fewer examples, the strength is not chosen, and no word is too rare.
_FEW = 100


def _predictions(metric, training, targets, examples) -> np.ndarray:
    """Returns class indices or numbers of a linear model of words.

    The metric chooses the strength of its regularization.
    """
    if len(np.unique(targets)) == 1:
        return np.full(len(examples), targets[0])
    # Products this small are slower with several threads.
    threads = import_package("threadpoolctl", "baselines")
    with threads.threadpool_limits(1):
        return _linear_predictions(metric, training, targets, examples)


def _linear_predictions(metric, training, targets, examples) -> np.ndarray:
    linear_model = import_package("sklearn.linear_model", "baselines")
    numbers = targets.dtype.kind == "f"

    def model(strength: float):
        if numbers:
            return linear_model.Ridge(alpha=1 / strength)
        return linear_model.LogisticRegression(C=strength, max_iter=2000)

    if training[0].pair is None:
        inputs, others = _of_single_texts(training, examples)
    elif numbers:
        inputs, others = _similarities(training, examples)
    else:
        inputs, others = _of_pairs(training, examples)
    order = np.random.default_rng(0).permutation(len(targets))
    held, kept = np.split(order, [len(targets) // 10])

    def held_out_score(strength: float) -> float:
        fitted = model(strength).fit(inputs[kept], targets[kept])
        predictions = fitted.predict(inputs[held])
        scores = classification_metrics([metric], predictions, targets[held])
        return -np.inf if np.isnan(scores[metric]) else scores[metric]

    strength = 1.0
    if len(targets) >= _FEW and len(np.unique(targets[kept])) > 1:
        strength = max(_STRENGTHS, key=held_out_score)
    return model(strength).fit(inputs, targets).predict(others)


def word_vectorizer(**settings):
    """Returns scikit-learn's TF-IDF of words, single letters included."""
    text = import_package("sklearn.feature_extraction.text", "baselines")
    if "analyzer" not in settings:
        settings["token_pattern"] = _WORD
    return text.TfidfVectorizer(sublinear_tf=True, **settings)


def _of_single_texts(training, examples):
    """Returns TF-IDF of words and word pairs for both sets."""
    rare = 2 if len(training) >= _FEW else 1
    vectorizer = word_vectorizer(ngram_range=(1, 2), min_df=rare)
    first = vectorizer.fit_transform([x.text for x in training])
    return first, vectorizer.transform([x.text for x in examples])


def _of_pairs(training, examples):
    """Returns difference, product and similarities of the texts."""
    sparse = import_package("scipy.sparse", "baselines")
    vectorizer = word_vectorizer()
    vectorizer.fit([x.text for x in training] + [x.pair for x in training])
    found = []
    for part, likeness in zip(
        (training, examples), _similarities(training, examples), strict=True
    ):
        a = vectorizer.transform([x.text for x in part])
        b = vectorizer.transform([x.pair for x in part])
        found.append(
            sparse.hstack([abs(a - b), a.multiply(b), likeness]).tocsr()
        )
    return found


def _similarities(training, examples) -> list[np.ndarray]:
    """Returns six similarities and their squares, `[examples, 12]`."""
    vectorizers = [
        word_vectorizer(),
        word_vectorizer(analyzer="char_wb", ngram_range=(3, 5)),
    ]
    for vectorizer in vectorizers:
        vectorizer.fit([x.text for x in training] + [x.pair for x in training])
    words = vectorizers[0].build_analyzer()
    found = []
    for part in (training, examples):
        columns = []
        for vectorizer in vectorizers:
            a = vectorizer.transform([x.text for x in part])
            b = vectorizer.transform([x.pair for x in part])
            columns.append(np.asarray(a.multiply(b).sum(axis=1)).ravel())
        shares = []
        for example in part:
            a, b = set(words(example.text)), set(words(example.pair))
            shared = len(a & b)
            sizes = (len(a), len(b), len(a | b), max(len(a), len(b)))
            first, second, both, longer = (max(1, size) for size in sizes)
            difference = abs(len(a) - len(b)) / longer
            shares.append(
                [shared / first, shared / second, shared / both, difference]
            )
        values = np.column_stack([*columns, np.array(shares)])
        found.append(np.hstack([values, values**2]))
    return found
