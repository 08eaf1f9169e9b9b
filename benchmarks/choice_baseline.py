"""A multiple-choice baseline: words that options share with the passage."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from albert_tf.finetuning.multiple_choice.examples import MultipleChoiceExample

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


def fit(
    train: Sequence[MultipleChoiceExample],
) -> Callable[[Sequence[MultipleChoiceExample]], np.ndarray]:
    """Trains a classifier of right and wrong options.

    Returns:
      A function that returns the index of the best option, int `[questions]`.
    """
    vectorizer = TfidfVectorizer(
        token_pattern=r"(?u)\b\w+\b", sublinear_tf=True, stop_words=None
    )
    passages = dict.fromkeys(example.passage for example in train)
    vectorizer.fit(list(passages))
    features = [_features(example, vectorizer) for example in train]
    right = [
        np.arange(len(rows)) == example.label
        for example, rows in zip(train, features, strict=True)
    ]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(np.concatenate(features), np.concatenate(right))

    def predict(examples: Sequence[MultipleChoiceExample]) -> np.ndarray:
        return np.array(
            [
                model.decision_function(_features(x, vectorizer)).argmax()
                for x in examples
            ]
        )

    return predict


def _features(
    example: MultipleChoiceExample, vectorizer: TfidfVectorizer
) -> np.ndarray:
    """Returns features of the options, float `[options, features]`.

    For each option: cosine with the passage; highest cosine with a sentence,
    alone and appended to the question; cosine with the sentence most similar to
    the question; shares of its words and word pairs that are in the passage;
    its length. Then the same minus the mean over the question's options.
    """
    analyze = vectorizer.build_analyzer()
    sentences = _SENTENCE_END.split(example.passage)
    asked = [f"{example.question} {option}" for option in example.options]
    count = len(example.options)
    vectors = vectorizer.transform(
        [*example.options, *asked, example.question, example.passage]
    )
    lines = vectorizer.transform(sentences)
    options, passage = vectors[:count], vectors[-1]
    by_sentence = (vectors[:-1] @ lines.T).toarray()
    nearest = by_sentence[-1].argmax()
    words = analyze(example.passage)
    known, known_pairs = set(words), set(zip(words, words[1:], strict=False))
    rows = []
    for i, option in enumerate(example.options):
        found = analyze(option)
        pairs = list(zip(found, found[1:], strict=False))
        rows.append(
            [
                (options[i] @ passage.T).toarray()[0, 0],
                by_sentence[i].max(),
                by_sentence[count + i].max(),
                by_sentence[i, nearest],
                sum(word in known for word in found) / max(1, len(found)),
                sum(p in known_pairs for p in pairs) / max(1, len(pairs)),
                np.log1p(len(found)),
            ]
        )
    values = np.array(rows)
    return np.hstack([values, values - values.mean(axis=0)])
