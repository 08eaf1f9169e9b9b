"""A baseline for texts and pairs of texts: TF-IDF and a linear model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from albert_tf.finetuning.text_classification.examples import (
    TextExample,
    TextTask,
)
from albert_tf.finetuning.text_classification.metrics import (
    classification_metrics,
)

WORD = r"(?u)\b\w+\b"  # unlike scikit-learn's, also words of one letter
STRENGTHS = (0.1, 1.0, 10.0, 100.0)


def scores(
    task: TextTask,
    train: Sequence[TextExample],
    scored: Sequence[TextExample],
) -> tuple[str, dict[str, float]]:
    """Trains on examples and scores others.

    Returns:
      A description of the features, and the task's scores.
    """
    if task.pair is None:
        features, how = single_features, "words and pairs of words"
    elif task.labels is not None:
        features, how = pair_features, "difference, product, similarities"
    else:
        features, how = similarities, "similarities and their squares"
    fitted, others = features(train, scored)
    values = [labels_of(task, part) for part in (train, scored)]
    predicted = fit_and_predict(task, fitted, others, values[0])
    return how, classification_metrics(task.metrics, predicted, values[1])


def labels_of(task: TextTask, examples: Sequence[TextExample]) -> np.ndarray:
    """Returns class indices or values, `[examples]`."""
    if task.labels is None:
        return np.array([example.label for example in examples])
    return np.array([task.labels.index(example.label) for example in examples])


def single_features(train, scored) -> list[sparse.csr_matrix]:
    """Returns TF-IDF of words and word pairs for both sets."""
    vectorizer = TfidfVectorizer(
        token_pattern=WORD, ngram_range=(1, 2), min_df=2, sublinear_tf=True
    )
    first = vectorizer.fit_transform([example.text for example in train])
    return [first, vectorizer.transform([example.text for example in scored])]


def pair_features(train, scored) -> list[sparse.csr_matrix]:
    """Returns difference, product and similarities of the texts."""
    vectorizer = TfidfVectorizer(token_pattern=WORD, sublinear_tf=True)
    vectorizer.fit([x.text for x in train] + [x.pair for x in train])
    found = []
    for examples, likeness in zip(
        (train, scored), similarities(train, scored), strict=True
    ):
        a = vectorizer.transform([x.text for x in examples])
        b = vectorizer.transform([x.pair for x in examples])
        found.append(
            sparse.hstack([abs(a - b), a.multiply(b), likeness]).tocsr()
        )
    return found


def similarities(train, scored) -> list[np.ndarray]:
    """Returns six similarities and their squares, `[examples, 12]`."""
    vectorizers = [
        TfidfVectorizer(token_pattern=WORD, sublinear_tf=True),
        TfidfVectorizer(
            analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True
        ),
    ]
    for vectorizer in vectorizers:
        vectorizer.fit([x.text for x in train] + [x.pair for x in train])
    words = vectorizers[0].build_analyzer()
    found = []
    for examples in (train, scored):
        columns = []
        for vectorizer in vectorizers:
            a = vectorizer.transform([x.text for x in examples])
            b = vectorizer.transform([x.pair for x in examples])
            columns.append(np.asarray(a.multiply(b).sum(axis=1)).ravel())
        shares = []
        for example in examples:
            a, b = set(words(example.text)), set(words(example.pair))
            shared = len(a & b)
            sizes = (len(a), len(b), len(a | b), max(len(a), len(b)))
            first, second, both, longer = (max(1, size) for size in sizes)
            shares.append(
                [
                    shared / first,
                    shared / second,
                    shared / both,
                    abs(len(a) - len(b)) / longer,
                ]
            )
        values = np.column_stack([*columns, np.array(shares)])
        found.append(np.hstack([values, values**2]))
    return found


def fit_and_predict(task, inputs, scored, values) -> np.ndarray:
    """Returns predictions for the rows of `scored`."""

    def model(strength):
        if task.labels is None:
            return Ridge(alpha=1 / strength)
        return LogisticRegression(C=strength, max_iter=2000)

    order = np.random.default_rng(0).permutation(len(values))
    held, kept = np.split(order, [len(values) // 10])

    def score(strength):
        predicted = model(strength).fit(inputs[kept], values[kept])
        return classification_metrics(
            task.metrics[:1], predicted.predict(inputs[held]), values[held]
        )[task.metrics[0]]

    best = max(STRENGTHS, key=score)
    return model(best).fit(inputs, values).predict(scored)
