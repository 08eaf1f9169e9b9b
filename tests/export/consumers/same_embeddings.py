"""Compares the vectors of an exported text encoder with those in a file.

Usage: same_embeddings.py TEXT_ENCODER EXPECTED.npz
"""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401


def main(path, expected_path):
    expected = np.load(expected_path)
    encoder = tf.saved_model.load(path)
    outputs = encoder(tf.constant(expected["texts"].tolist()))
    np.testing.assert_array_equal(
        outputs["input_word_ids"], expected["input_word_ids"]
    )
    # The order of sums in float32 depends on the padding.
    np.testing.assert_allclose(
        outputs["pooled_output"], expected["pooled_output"], rtol=0, atol=1e-5
    )
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
