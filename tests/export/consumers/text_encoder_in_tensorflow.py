"""Uses exported text encoders with TensorFlow and TensorFlow Text only.

Usage: text_encoder_in_tensorflow.py PACKED PADDED EXPECTED.npz NEW_FOLDER
"""

import pathlib
import shutil
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401

IDS = ("input_word_ids", "input_mask", "input_type_ids")
OUTPUTS = {
    *IDS,
    "default",
    "pooled_output",
    "mean_output",
    "sequence_output",
}


# The order of sums in float32 depends on the padding.
def close(actual, desired):
    np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-5)


def same(outputs, expected, case):
    assert set(outputs) == OUTPUTS
    for name in IDS:
        assert outputs[name].dtype == tf.int32
        np.testing.assert_array_equal(outputs[name], expected[f"{case}/{name}"])
    for name in ("pooled_output", "mean_output"):
        close(outputs[name], expected[f"{case}/{name}"])
    close(outputs["default"], expected[f"{case}/pooled_output"])
    mask = expected[f"{case}/input_mask"][:, :, None]
    close(
        outputs["sequence_output"] * mask,
        expected[f"{case}/sequence_output"] * mask,
    )


def check_numbers(encoder, expected, texts):
    pairs = [texts, texts[::-1]]
    same(encoder(texts), expected, "texts")
    same(encoder(texts, seq_length=7), expected, "texts_7")
    same(encoder(texts, seq_length=tf.constant(7)), expected, "texts_7")
    same(encoder(pairs), expected, "pairs")
    same(encoder(pairs, training=False, seq_length=7), expected, "pairs_7")
    # Alone, a text has no padding.
    alone = encoder(texts[:1])
    close(alone["mean_output"], expected["texts/mean_output"][:1])
    assert np.all(alone["input_mask"] == 1)


def check_edges(encoder, expected):
    for inputs in (
        tf.constant([], tf.string),
        [tf.constant([], tf.string)] * 2,
    ):
        outputs = encoder(inputs)
        assert outputs["mean_output"].shape == [0, 16]
        assert outputs["sequence_output"].shape[0] == 0
    empty = encoder(tf.constant([""]))
    assert empty["sequence_output"].shape == [1, 2, 16]
    assert np.isfinite(empty["mean_output"]).all()
    message = ""
    try:
        encoder(tf.constant(["good " * 99]), seq_length=41)
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        message = str(error)
    assert "max_position_embeddings" in message, message


def check_signatures(encoder, expected, texts):
    outputs = encoder.signatures["serving_default"](text=texts)
    assert set(outputs) == {"pooled_output", "mean_output"}
    for name, value in outputs.items():
        close(value, expected[f"texts/{name}"])
    outputs = encoder.signatures["sequence"](text=texts)
    assert set(outputs) == {"sequence_output", *IDS}
    mask = expected["texts/input_mask"]
    np.testing.assert_array_equal(outputs["input_mask"], mask)
    close(
        outputs["sequence_output"] * mask[:, :, None],
        expected["texts/sequence_output"] * mask[:, :, None],
    )


def check_training(encoder, expected, texts):
    def spread(call):
        draws = [call()["mean_output"] for _ in range(3)]
        return float(np.max(np.std(draws, axis=0)))

    assert spread(lambda: encoder(texts)) < 1e-6
    assert spread(lambda: encoder(texts, training=True)) > 1e-3
    assert spread(lambda: encoder(texts, training=True, seq_length=7)) > 1e-3
    assert spread(lambda: encoder.call_training(texts)) > 1e-3
    count = int(expected["weights"])
    assert len(encoder.variables) == count
    assert len(encoder.trainable_variables) == count
    assert list(encoder.regularization_losses) == []
    with tf.GradientTape() as tape:
        outputs = encoder([texts, texts], training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
    gradients = tape.gradient(loss, encoder.trainable_variables)
    assert all(np.any(tf.convert_to_tensor(g) != 0) for g in gradients)


def check_text(encoder, expected, texts, path):
    tokens = encoder.tokenize(texts)
    assert tokens.dtype == tf.int32
    ids = expected["texts/input_word_ids"]
    assert tokens[0].numpy().tolist() == ids[0][ids[0] > 3].tolist()
    special = encoder.tokenize.get_special_tokens_dict()
    assert int(special["vocab_size"]) == 90
    asset = pathlib.Path(encoder.sp_model_file.asset_path.numpy().decode())
    assert asset.is_relative_to(path)
    assert asset.read_bytes()
    assert encoder.do_lower_case.numpy() is np.False_


def check_keras_3(path, expected, texts):
    keras = tf.keras
    assert keras.__version__.startswith("3.")
    layer = keras.layers.TFSMLayer(
        path, call_endpoint="__call__", call_training_endpoint="call_training"
    )
    strings = keras.Input((), dtype="string")
    pooled = layer(strings)["pooled_output"]
    model = keras.Model(strings, keras.layers.Dense(1)(pooled))
    assert len(model.trainable_weights) == int(expected["weights"]) + 2
    close(layer(texts)["pooled_output"], expected["texts/pooled_output"])


def check_saved_again(path, new_folder, expected, texts):
    first, second = new_folder / "first", new_folder / "second"
    shutil.copytree(path, first)
    loaded = tf.saved_model.load(first)
    tf.saved_model.save(loaded, second, signatures=loaded.signatures)
    shutil.rmtree(first)
    encoder = tf.saved_model.load(second)
    check_numbers(encoder, expected, texts)
    check_signatures(encoder, expected, texts)
    check_text(encoder, expected, texts, second)


def main(packed_path, padded_path, expected_path, new_folder):
    expected = np.load(expected_path)
    texts = tf.constant(expected["strings"].tolist())
    packed = tf.saved_model.load(packed_path)
    check_numbers(packed, expected, texts)
    check_edges(packed, expected)
    check_signatures(packed, expected, texts)
    check_training(packed, expected, texts)
    check_text(packed, expected, texts, packed_path)
    check_keras_3(packed_path, expected, texts)
    real = expected["texts/input_mask"][:, :, None]
    assert not np.any(packed(texts)["sequence_output"] * (1 - real))

    padded = tf.saved_model.load(padded_path)
    check_numbers(padded, expected, texts)
    check_edges(padded, expected)
    close(padded(texts)["sequence_output"], expected["texts/sequence_output"])
    check_saved_again(packed_path, pathlib.Path(new_folder), expected, texts)
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
