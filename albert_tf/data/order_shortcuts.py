"""Shortcuts in sentence order: accuracy of baselines that see no meaning.

If the segment that ends without punctuation always came first, a model would
learn that instead of what sentences mean. A rule and a shallow classifier that
see only the ends, starts and lengths of the segments measure how much these
reveal.
"""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from albert_tf.array_ops import ArrayOps
from albert_tf.data.sentence_pairs import draw_partners
from albert_tf.data.tfrecords import READ_ERRORS, read_examples
from albert_tf.errors import InputError
from albert_tf.optional_packages import import_package
from albert_tf.text.base_tokenizer import Tokenizer

# Accuracies above these are a leak. The classifier may also learn what is
# true of text, such as the words that begin a paragraph.
RULE_LIMIT, CLASSIFIER_LIMIT = 0.55, 0.60

# Last part of the name of a baseline -> what it is.
LABELS = {
    "chance": "chance",
    "rule": "punctuation rule",
    "shallow": "shallow classifier",
}

# Pairs that are read, and the fewest of either label that are scored.
_MAX_PAIRS = 20_000
_MIN_PAIRS = 50

# Tokens with a category of their own in the classifier, which has 255.
_NUM_TOKENS = 250

# Raised for records with missing features, or values out of bounds, too.
_BAD_RECORD = (IndexError, KeyError, *READ_ERRORS)

# A segment is its first and last token and its length.
_Segment = tuple[int, int, int]


def measure_shortcuts(
    paths: Iterable[str],
    sentence_order: str,
    tokenizer: Tokenizer,
    passes: int = 1,
) -> dict[str, float]:
    """Predicts the order of segments from their ends, starts and lengths.

    Args:
      paths: files of records in random order, of which the first are read.
      sentence_order: "sop" or "nsp"; text is split into pairs as in training.
      tokenizer: the tokenizer of the records.
      passes: number of passes over the text in the records, to read as many
        pairs as there are in one.

    Returns:
      `pairs`, the number of pairs, and the accuracies of `punctuation_rule`,
      that the segment without punctuation at its end came first (or last), and
      of `shallow_classifier`, gradient-boosted trees that are trained on one
      half of the pairs and tested on the other. They are left out if there are
      too few pairs.

    Raises:
      InputError: if a record cannot be read, or scikit-learn is not installed.
    """
    rng = np.random.default_rng(0)
    segments, labels = _read_pairs(paths, sentence_order, rng, passes)
    scores: dict[str, float] = {"pairs": len(labels)}
    if np.bincount(labels, minlength=2).min() < _MIN_PAIRS:
        return scores
    is_punctuation = np.array(
        [
            unicodedata.category(piece[-1:] or "a").startswith("P")
            for piece in map(tokenizer.id_to_piece, range(tokenizer.vocab_size))
        ]
    )
    ends = is_punctuation[segments[:, :, 1]]
    scores["punctuation_rule"] = _score_rule(ends, labels)
    scores["shallow_classifier"] = _score_classifier(segments, ends, labels)
    return scores


def check_packages() -> tuple[Any, Any]:
    """Imports scikit-learn's ensembles and threadpoolctl."""
    purpose = "baselines of sentence order"
    return (
        import_package("sklearn.ensemble", purpose),
        import_package("threadpoolctl", purpose),
    )


def add_shortcuts(
    manifest: dict[str, Any],
    folder: str | os.PathLike[str],
    tokenizer: Tokenizer,
) -> None:
    """Adds `shortcuts` to each split in the manifest of a folder of data."""
    order = manifest["settings"]["sentence_order"]
    if order == "none":
        return
    for split in manifest["splits"].values():
        files = [os.path.join(folder, file["name"]) for file in split["files"]]
        split["shortcuts"] = measure_shortcuts(
            files, order, tokenizer, split["passes"]
        )


def describe_shortcuts(shortcuts: Mapping[str, float]) -> str:
    """Returns the scores in words."""
    if "punctuation_rule" not in shortcuts:
        return f"not measured, as there are only {shortcuts['pairs']:,} pairs"
    return (
        f"punctuation rule {shortcuts['punctuation_rule']:.1%}, shallow "
        f"classifier {shortcuts['shallow_classifier']:.1%}"
    )


def is_leak(shortcuts: Mapping[str, float]) -> bool:
    """Returns whether a score is above its limit, and not only by chance."""
    # Three standard errors.
    noise = 1.5 / max(1, shortcuts["pairs"]) ** 0.5
    return any(
        shortcuts.get(name, 0.5) > max(limit, 0.5 + noise)
        for name, limit in (
            ("punctuation_rule", RULE_LIMIT),
            ("shallow_classifier", CLASSIFIER_LIMIT),
        )
    )


def _read_pairs(
    paths: Iterable[str],
    sentence_order: str,
    rng: np.random.Generator,
    passes: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Reads pairs of segments from records.

    Returns:
      `[pairs, 2, 3]`, A and B, see `_Segment`; and their labels, `[pairs]`.
    """
    found: list[tuple[_Segment, _Segment, int]] = []
    is_text = False
    for path in paths:
        try:
            for record in read_examples(path):
                is_text = "tokens" in record
                read = _split_text(record, rng) if is_text else _pair(record)
                found += read
                if len(found) >= _MAX_PAIRS:
                    break
        except _BAD_RECORD as error:
            raise InputError(
                f"records {path}: one cannot be read ({error}); make the data "
                "again"
            ) from None
        if len(found) >= _MAX_PAIRS:
            break
    if passes > 1 and len(found) < _MAX_PAIRS:
        found = found[: len(found) // passes]
    a, b, last = zip(*found, strict=True) if found else ((), (), ())
    pairs = np.array([a, b], np.int64).reshape(2, -1, 3).swapaxes(0, 1)
    numbers = np.array(last, np.int64)
    if not is_text:
        return pairs, numbers
    changed = rng.integers(2, size=len(pairs)) == 1
    if sentence_order == "sop":
        pairs[changed] = pairs[changed, ::-1]
    else:
        draws = rng.random(len(pairs), np.float32)
        partners, is_other = draw_partners(
            ArrayOps(), pairs[:, 1, 2], numbers, changed, draws
        )
        changed &= is_other
        pairs[changed, 1] = pairs[partners[changed], 1]
    return pairs, changed.astype(np.int64)


def _segment(tokens: np.ndarray) -> _Segment:
    return int(tokens[0]), int(tokens[-1]), len(tokens)


def _pair(
    record: Mapping[str, np.ndarray],
) -> Iterator[tuple[_Segment, _Segment, int]]:
    """Yields A, B and the label of a record in Google's format with a B."""
    length = int(record["input_mask"].sum())
    in_b = int(record["segment_ids"].sum())
    if not in_b:
        return
    ids = record["input_ids"].copy()
    used = record["masked_lm_weights"] > 0
    ids[record["masked_lm_positions"][used]] = record["masked_lm_ids"][used]
    # [CLS] A [SEP] B [SEP]
    a, b = ids[1 : length - in_b - 1], ids[length - in_b : length - 1]
    yield _segment(a), _segment(b), int(record["next_sentence_labels"][0])


def _split_text(
    record: Mapping[str, np.ndarray], rng: np.random.Generator
) -> Iterator[tuple[_Segment, _Segment, int]]:
    """Yields both segments, in order, and the document of each chunk."""
    tokens, boundaries = record["tokens"], record["sentence_starts"]
    documents = record["documents" if "documents" in record else "document"]
    starts = [0, *record.get("chunk_starts", ()), len(tokens)]
    for (start, end), document in zip(
        itertools.pairwise(starts), documents, strict=True
    ):
        inner = boundaries[(boundaries > start) & (boundaries < end)]
        if len(inner):
            middle = inner[int(rng.random() * len(inner))]
            first, second = tokens[start:middle], tokens[middle:end]
            yield _segment(first), _segment(second), int(document)


def _score_rule(ends: np.ndarray, labels: np.ndarray) -> float:
    """Scores the rule, or its opposite; pairs that end alike count half."""
    a, b = ends.T
    score = np.where(a == b, 0.5, a == labels).mean()
    return round(float(max(score, 1 - score)), 4)


def _score_classifier(
    segments: np.ndarray, ends: np.ndarray, labels: np.ndarray
) -> float:
    """Scores trees by two-fold cross-validation; see `_read_pairs`.

    `ends` are bool `[pairs, 2]`, whether A and B end with punctuation.
    """
    ensemble, threads = check_packages()
    tokens = segments[:, :, :2].reshape(-1, 4)
    ids, counts = np.unique(tokens, return_counts=True)
    common = np.sort(ids[np.argsort(-counts, kind="stable")][:_NUM_TOKENS])
    category = np.searchsorted(common, tokens).clip(max=len(common) - 1)
    category[common[category] != tokens] = len(common)
    lengths = segments[:, :, 2]
    features = np.column_stack(
        [category, lengths, lengths[:, 0] - lengths[:, 1], ends]
    )
    halves = np.arange(len(labels)) % 2
    hits = 0
    # More threads would wait for each other, and sum in another order.
    with threads.threadpool_limits(1):
        for half in range(2):
            trees = ensemble.HistGradientBoostingClassifier(
                max_iter=50,
                max_leaf_nodes=15,
                categorical_features=range(4),
                early_stopping=False,
                random_state=0,
            ).fit(features[halves != half], labels[halves != half])
            found = trees.predict(features[halves == half])
            hits += int((found == labels[halves == half]).sum())
    return round(hits / len(labels), 4)
