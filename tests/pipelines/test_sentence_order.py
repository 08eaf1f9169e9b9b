import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.models.pretrainer import AlbertPretrainer

FIRST, SECOND = "A module is imported once.", "Every object has a type."


def test_probability_that_pairs_are_swapped(checkpoint):
    order = albert_tf.SentenceOrder(checkpoint, batch_size=2)
    pairs = [(FIRST, SECOND), (SECOND * 3, FIRST), ("a", "b")]
    swapped = order(pairs)
    model = AlbertPretrainer.from_pretrained(checkpoint)
    for (first, second), probability in zip(pairs, swapped, strict=True):
        inputs = model.tokenizer([first], [second], max_length=64)
        logits = model({**inputs, "masked_lm_positions": np.array([[0]])})[
            "sop_logits"
        ]
        expected = keras.ops.softmax(logits)[0, 1]
        np.testing.assert_allclose(probability, expected, atol=1e-5)
    assert order([]).shape == (0,)
    for pair in pairs[0], list(pairs[0]):
        one = order(pair)
        assert (one.shape, one.dtype) == ((), np.float32)
        np.testing.assert_allclose(one, swapped[0], atol=1e-5)
    for wrong in ([("a", "b", "c")], ["ab", "cd", "ef"], [("a", 1)], [3]):
        with pytest.raises(InputError, match="must be a pair of texts"):
            order(wrong)
    for wrong in ("ab", None):
        with pytest.raises(InputError, match="must be a list of pairs"):
            order(wrong)
