import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.embedding.features import (
    text_features,
    training_features,
)


def test_equal_texts_have_equal_hashes(tokenizer, examples_of):
    examples = examples_of(
        ("a name", "a value"), ("A  NAME", "the value"), ("a value", "a list")
    )
    features = training_features(iter(examples), tokenizer, max_seq_length=16)
    assert features.sequences_per_example == 2
    assert features.num_examples == 3
    (a, b), (c, d), (e, f) = features.columns["text_hashes"].tolist()
    # As the tokenizer sees them.
    assert a == c
    assert b == e
    assert len({a, b, d, f}) == 4
    assert "labels" not in features.columns
    batch = features.pad([0, 2])
    assert batch["input_word_ids"].shape[:2] == (2, 2)
    flat = text_features(examples, tokenizer, max_seq_length=16)
    np.testing.assert_array_equal(flat.ids, features.ids)
    assert flat.num_examples == 6


def test_long_texts_are_cut(tokenizer, examples_of):
    features = training_features(
        examples_of(("the name of " * 20,)), tokenizer, max_seq_length=8
    )
    assert features.lengths.tolist() == [8]
    assert features.ids[[0, -1]].tolist() == [
        tokenizer.cls_id,
        tokenizer.sep_id,
    ]


@pytest.mark.parametrize(
    ("scores", "targets"),
    [
        ([0.0, 2.0, 5.0], [0.0, 0.4, 1.0]),
        ([-2.0, 0.0, 2.0], [0.0, 0.5, 1.0]),
        # They may be cosines already.
        ([0.1, 0.2, 0.9], [0.1, 0.2, 0.9]),
        ([-1.0, 0.0, 0.5], [-1.0, 0.0, 0.5]),
    ],
)
def test_scores_become_cosines(tokenizer, scores, targets, examples_of):
    examples = examples_of(*[("a", "b")] * 3, labels=scores)
    features = training_features(examples, tokenizer, max_seq_length=8)
    np.testing.assert_allclose(features.columns["labels"], targets, rtol=1e-6)


def test_examples_of_one_kind(tokenizer, examples_of):
    mixed = examples_of(("a", "b"), ("a", "b", "c"))
    with pytest.raises(InputError, match="a:1: triplets, but the examples bef"):
        training_features(mixed, tokenizer, max_seq_length=8)
    mixed = examples_of(("a", "b"), ("a", "b"), labels=[1.0, None])
    with pytest.raises(InputError, match="a:1: pairs, but .* pairs with score"):
        training_features(mixed, tokenizer, max_seq_length=8)
    equal = examples_of(("a", "b"), ("a", "c"), labels=[5.0, 5.0])
    with pytest.raises(InputError, match="all scores are 5, so their range"):
        training_features(equal, tokenizer, max_seq_length=8)
    assert not training_features([], tokenizer, max_seq_length=8).num_examples
