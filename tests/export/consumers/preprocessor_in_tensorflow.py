"""Uses an exported preprocessor with TensorFlow and TensorFlow Text only.

Usage: preprocessor_in_tensorflow.py NEW_FOLDER [PREPROCESSOR EXPECTED.json]...
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401

INPUTS = {"input_word_ids", "input_mask", "input_type_ids"}


def same(packed, desired):
    assert set(packed) == INPUTS
    for name, tensor in packed.items():
        assert tensor.dtype == tf.int32
        np.testing.assert_array_equal(tensor, desired[name], name)


def check_tokens(preprocessor, expected):
    texts = tf.constant(expected["texts"])
    tokens = preprocessor.tokenize(texts)
    assert tokens.dtype == tf.int32
    assert tokens.to_list() == expected["ids"]

    offsets = preprocessor.tokenize_with_offsets(texts)
    assert isinstance(offsets, list)
    assert [part.to_list() for part in offsets] == expected["with_offsets"]
    assert [part.dtype for part in offsets] == [tf.int32, tf.int64, tf.int64]

    special = preprocessor.tokenize.get_special_tokens_dict()
    assert {k: int(v) for k, v in special.items()} == expected["special"]


def check_packing(preprocessor, expected):
    texts = tf.constant(expected["texts"])
    seconds = texts[::-1]
    same(preprocessor(texts), expected["default"])
    same(preprocessor(texts, seq_length=7), expected["7"])
    same(preprocessor(texts, seq_length=tf.constant(7)), expected["7"])
    same(preprocessor([texts, seconds]), expected["pairs"])
    same(preprocessor([texts, seconds], seq_length=7), expected["pairs_7"])

    tokens = preprocessor.tokenize(texts)
    pair = [tokens, preprocessor.tokenize(seconds)]
    pack = preprocessor.bert_pack_inputs
    same(pack([tokens]), expected["default"])
    same(pack([tokens], seq_length=7), expected["7"])
    same(pack([tokens], seq_length=tf.constant(7)), expected["7"])
    same(pack(pair), expected["pairs"])
    same(pack(pair, seq_length=7), expected["pairs_7"])
    # Words of several pieces: what a WordPiece tokenizer would give.
    words = [tf.expand_dims(segment, 1) for segment in pair]
    same(pack(words[:1], seq_length=7), expected["7"])
    same(pack(words, seq_length=7), expected["pairs_7"])
    try:
        pack([tokens] * 3)
    except ValueError:
        pass
    else:
        raise AssertionError("three segments were packed")


def check_static_shapes(preprocessor, expected):
    def by_parts(texts):
        tokens = preprocessor.tokenize(texts)
        return preprocessor.bert_pack_inputs([tokens], seq_length=7)

    def whole(texts):
        return preprocessor(texts, seq_length=7)

    # Batches of known and unknown size.
    texts = tf.data.Dataset.from_tensor_slices(expected["texts"])
    for function in (by_parts, whole):
        for drop, batch in ((False, None), (True, 2)):
            mapped = texts.batch(2, drop_remainder=drop).map(function)
            for spec in mapped.element_spec.values():
                assert spec.shape.as_list() == [batch, 7]
        rows = np.concatenate([x["input_word_ids"] for x in mapped])
        desired = expected["7"]["input_word_ids"][: len(rows)]
        np.testing.assert_array_equal(rows, desired)
    default = texts.batch(2).map(preprocessor).element_spec["input_mask"]
    assert default.shape.as_list() == [None, expected["seq_length"]]


def check_signature(preprocessor, expected):
    texts = tf.constant(expected["texts"])
    same(
        preprocessor.signatures["serving_default"](text=texts),
        expected["default"],
    )


def check_everything(preprocessor, expected, path):
    check_tokens(preprocessor, expected)
    check_packing(preprocessor, expected)
    check_signature(preprocessor, expected)
    asset = preprocessor.sp_model_file.asset_path.numpy().decode()
    assert pathlib.Path(asset).is_relative_to(path)
    for part in (preprocessor, preprocessor.tokenize):
        assert list(part.variables) == list(part.trainable_variables) == []


def check_saved_again(path, expected, new_folder):
    first, second = new_folder / "first", new_folder / "second"
    shutil.copytree(path, first)
    loaded = tf.saved_model.load(first)
    tf.saved_model.save(loaded, second, signatures=loaded.signatures)
    shutil.rmtree(first)
    check_everything(tf.saved_model.load(second), expected, second)


def main(new_folder, *paths):
    for path, expected_path in zip(paths[::2], paths[1::2], strict=True):
        expected = json.loads(pathlib.Path(expected_path).read_text())
        preprocessor = tf.saved_model.load(path)
        check_everything(preprocessor, expected, path)
    check_static_shapes(preprocessor, expected)
    check_saved_again(path, expected, pathlib.Path(new_folder))
    assert "albert_tf" not in sys.modules


if __name__ == "__main__":
    main(*sys.argv[1:])
