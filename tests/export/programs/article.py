"""Runs the code of an article on movie reviews, as it is printed there.

With "tensorflow_hub" (and TF_USE_LEGACY_KERAS=1) the process has no albert_tf.
With "albert_tf" it is Keras 3, and the import, which is not printed, differs.

Usage: article.py tensorflow_hub|albert_tf CODE.py REVIEWS.tsv
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401

HEAD_WEIGHTS = 14  # Four Dense and three BatchNormalization layers.
ENCODER_WEIGHTS = 25


def read(path):
    """Returns data sets of (text, label) for training and validation."""
    with open(path, encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    texts = [text for _, text in rows]
    labels = [float(label) for label, _ in rows]
    data = tf.data.Dataset.from_tensor_slices((texts, labels))
    return data.skip(100), data.take(100)


def main(library, code_path, reviews_path):
    tf.keras.utils.set_random_seed(0)
    if library == "tensorflow_hub":
        import tensorflow_hub as hub

        assert "tf_keras" in tf.keras.Model.__module__
    else:
        from albert_tf.exporting import hub

        assert tf.keras.__version__.startswith("3.")
    train_data, validation_data = read(reviews_path)
    names = {
        "tf": tf,
        "hub": hub,
        "train_data": train_data,
        "validation_data": validation_data,
    }
    code = pathlib.Path(code_path).read_text("utf-8")
    exec(compile(code, code_path, "exec"), names)

    encoder, model = names["encoder"], names["model"]
    trainable = "trainable=True" in code
    assert len(encoder.weights) == ENCODER_WEIGHTS
    count = HEAD_WEIGHTS + ENCODER_WEIGHTS * trainable
    assert len(model.trainable_weights) == count, len(model.trainable_weights)
    original = tf.saved_model.load(names["albert_url"]).variables
    for weight, variable in zip(encoder.weights, original, strict=True):
        moved = bool(np.any(weight.numpy() != variable.numpy()))
        assert moved == trainable, weight.name
    scores = names["history"].history
    assert len(scores["val_accuracy"]) == 10
    assert scores["loss"][-1] < scores["loss"][0], scores["loss"]
    assert library == "albert_tf" or "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
