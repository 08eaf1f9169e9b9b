"""Scores of sentence embeddings, and of baselines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.bag_of_words import MAX_TRAINING, word_vectorizer
from albert_tf.finetuning.embedding.examples import EMBEDDING, EmbeddingExample
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.metrics import classification_metrics
from albert_tf.finetuning.task_config import check_metric_names
from albert_tf.optional_packages import import_package

CORRELATIONS = EMBEDDING.metrics
RETRIEVAL = "accuracy"
METRICS = (*CORRELATIONS, RETRIEVAL)

# Number of consecutive examples among whose texts a positive is to be found.
RETRIEVED_AMONG = 1000


def check_metrics(
    metrics: Sequence[str], examples: Sequence[EmbeddingExample]
) -> None:
    """Raises an `InputError` if examples cannot be scored with the metrics."""
    check_metric_names(metrics, METRICS)
    scored = [x for x in examples if x.label is not None]
    for example in examples:
        if len(example.texts) == 1:
            raise InputError(
                f"{example.location}: a single text cannot be scored; give "
                "pairs of texts, with or without scores"
            )
        if scored and example.label is None:
            raise InputError(
                f"{example.location}: no score, unlike other examples; "
                "evaluate pairs with and without scores separately"
            )
    if scored:
        import_package("scipy.stats")
    for name in metrics:
        if examples and (name in CORRELATIONS) != bool(scored):
            known = ",".join(CORRELATIONS) if scored else RETRIEVAL
            raise InputError(
                f"{examples[0].location}: {name} cannot be computed from pairs "
                f"{'with' if scored else 'without'} scores; use "
                f"--metrics={known}"
            )


def embedding_scores(
    examples: Sequence[EmbeddingExample], vectors: Any
) -> dict[str, float]:
    """Scores embeddings.

    Args:
      examples: pairs or triplets, all with scores or all without.
      vectors: of all texts in the order of the examples, of length 1, `[texts,
        size]`; may be a sparse matrix of SciPy.

    Returns:
      For pairs with scores, Spearman's and Pearson's correlation of the cosines
      with the scores. Otherwise the `accuracy` of retrieval: the share of the
      examples whose positive has a larger cosine with the anchor than all other
      positives, and all negatives, of `RETRIEVED_AMONG` consecutive examples.
      Texts that equal the anchor or its positive, and positives of equal
      anchors, do not count.
    """
    starts = np.cumsum([0, *(len(x.texts) for x in examples)])
    if examples[0].label is not None:
        anchors, others = vectors[starts[:-1]], vectors[starts[:-1] + 1]
        labels = np.array([x.label for x in examples], float)
        return classification_metrics(
            CORRELATIONS, _cosines(anchors, others), labels
        )
    hits = 0
    for first in range(0, len(examples), RETRIEVED_AMONG):
        block = examples[first : first + RETRIEVED_AMONG]
        rows = slice(starts[first], starts[first + len(block)])
        hits += _retrieved(block, vectors[rows])
    return {RETRIEVAL: hits / len(examples)}


def _cosines(first: Any, second: Any) -> np.ndarray:
    """Returns the products of rows, dense or sparse."""
    products = (
        first * second
        if isinstance(first, np.ndarray)
        else first.multiply(second)
    )
    return np.asarray(products.sum(axis=1)).ravel()


def _retrieved(examples: Sequence[EmbeddingExample], vectors: Any) -> int:
    """Returns the number of anchors that are closest to their positive."""
    texts = [text for example in examples for text in example.texts]
    numbers = {text: i for i, text in enumerate(texts)}
    ids = np.array([numbers[text] for text in texts])
    sizes = [len(x.texts) for x in examples]
    anchors = np.cumsum([0, *sizes[:-1]])
    positives = anchors + 1
    negatives = np.setdiff1d(np.arange(len(texts)), [*anchors, *positives])
    candidates = np.concatenate([positives, negatives])
    cosines = vectors[anchors] @ vectors[candidates].T
    if not isinstance(cosines, np.ndarray):
        cosines = cosines.toarray()
    own = cosines.diagonal().copy()
    anchor, positive = ids[anchors][:, None], ids[positives][:, None]
    equal = (ids[candidates] == anchor) | (ids[candidates] == positive)
    equal[:, : len(examples)] |= anchor == anchor.T
    cosines[equal] = -np.inf
    return int((own > cosines.max(axis=1)).sum())


def mean_embeddings(table: np.ndarray, features: Features) -> np.ndarray:
    """Returns the mean of the word embeddings of each sequence.

    They have the length 1, or 0 without words, float32 `[sequences, size]`. The
    first and the last token of a sequence are left out.
    """
    starts, ends = features.starts[:-1] + 1, features.starts[1:] - 1
    sums = np.stack(
        [
            table[features.ids[start:end]].sum(axis=0)
            for start, end in zip(starts, ends, strict=True)
        ]
    )
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return sums / np.maximum(norms, 1e-12)


def bag_of_words_scores(
    training: Iterable[EmbeddingExample], examples: Sequence[EmbeddingExample]
) -> dict[str, dict[str, float]]:
    """Scores vectors of TF-IDF, which need no training; {} without words.

    How frequent words are is counted in the training examples and in those to
    be scored.
    """
    known = [
        text
        for example in itertools.islice(training, MAX_TRAINING)
        for text in example.texts
    ]
    texts = [text for example in examples for text in example.texts]
    words = word_vectorizer()
    try:
        words.fit([*known, *texts])
    except ValueError as error:
        if "empty vocabulary" in str(error):
            return {}
        raise
    vectors = words.transform(texts)
    return {"bag of words": embedding_scores(examples, vectors)}
