"""Baselines of token classification."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from albert_tf.finetuning.token_classification.examples import (
    TokenClassificationExample,
)
from albert_tf.finetuning.token_classification.metrics import sequence_metrics


def word_baselines(
    metrics: Sequence[str],
    training: Iterable[TokenClassificationExample],
    examples: Sequence[TokenClassificationExample],
) -> dict[str, dict[str, float]]:
    """Scores the most frequent label, and that of each word.

    A word that is not in the training examples gets the most frequent label of
    all words.

    Args:
      metrics: names of the metrics, see `sequence_metrics`.
      training: training examples with labels.
      examples: examples with labels, to be scored.
    """
    of_words: dict[str, Counter[str]] = defaultdict(Counter)
    for example in training:
        for word, label in zip(
            example.words, example.labels or (), strict=True
        ):
            of_words[word][label] += 1
    [(most_frequent, _)] = sum(
        of_words.values(), start=Counter[str]()
    ).most_common(1)
    known = {
        word: counts.most_common(1)[0][0] for word, counts in of_words.items()
    }
    truth = [list(x.labels or ()) for x in examples]
    return {
        name: sequence_metrics(
            metrics,
            [
                [of.get(word, most_frequent) for word in x.words]
                for x in examples
            ],
            truth,
        )
        for name, of in (
            ("most frequent label", {}),
            ("most frequent label of each word", known),
        )
    }
