import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.exporting.preprocessor import export_preprocessor
from albert_tf.text.preprocessor_layer import AlbertPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW

TEXTS = [
    "The movie was not bad.",
    "A good film: 12, 1,000 and 99,999, seen 7 times, twice.",
    "",
    "   \t\u3000 ",
    # Accents, a ligature, dotted I, sharp s, and sigmas.
    "\u00c9tude na\u00efve \ufb01lm \u0130stanbul Stra\u00dfe",
    "\u039f\u0394\u039f\u03a3 \u03a3\u0391\u03a3 \u03a3",
    "e\u0301 a\u030a\u0323 \u1e9b\u0323 \u00bd \u2460 \uff21\uff22",
    "[CLS] [MASK] <pad> [SEP] <unk> \u2581the",
    "``good'' \u201cbad\u201d 'film'",
    "\U0001f600 \u4e2d\u6587 \u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d",
    "zero\u200bwidth\u00a0no-break \ufeff mark\u2028line",
    "nul\0tab\tend\n",
    "movie " * 60,
]
LENGTH = 20
SETTINGS = {
    "default": {},
    "cased": {
        "do_lower_case": False,
        "strip_accents": False,
        "digit_comma": "corrected",
    },
    "hugging_face": HUGGING_FACE_SLOW,
}


@pytest.fixture(
    scope="module",
    params=[
        "default",
        # tests/text/test_preprocessor.py tests them without an export.
        pytest.param("hugging_face", marks=pytest.mark.slow),
        pytest.param("cased", marks=pytest.mark.slow),
    ],
)
def pair(request, tokenizer, preprocessor_path, tmp_path_factory):
    """An exported preprocessor, and the tokenizer."""
    settings, path = SETTINGS[request.param], preprocessor_path
    if settings:
        tokenizer = tokenizer.with_settings(**settings)
        path = tmp_path_factory.mktemp("preprocessor") / request.param
        export_preprocessor(tokenizer, path, seq_length=LENGTH)
    return tf.saved_model.load(path), tokenizer


def same(packed, expected):
    assert set(packed) == set(expected)
    for name, values in expected.items():
        assert packed[name].dtype == tf.int32
        np.testing.assert_array_equal(packed[name], values, name)


def test_tokens(pair, tokenizer_model):
    preprocessor, tokenizer = pair
    texts = tf.constant(TEXTS)
    tokens = preprocessor.tokenize(texts)
    assert tokens.dtype == tf.int32
    assert tokens.to_list() == tokenizer.encode(TEXTS)
    ids, starts, ends = preprocessor.tokenize_with_offsets(texts)
    expected = AlbertPreprocessor(
        tokenizer_model, **tokenizer.settings
    ).tokenize_with_offsets(texts)
    for found, part in zip((ids, starts, ends), expected, strict=True):
        assert found.to_list() == part.to_list()
    assert (ids.dtype, starts.dtype, ends.dtype) == (
        tf.int32,
        tf.int64,
        tf.int64,
    )
    special = preprocessor.tokenize.get_special_tokens_dict()
    assert {name: int(x) for name, x in special.items()} == {
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
        "vocab_size": tokenizer.vocab_size,
    }


def test_rows_of_texts_and_pairs(pair):
    preprocessor, tokenizer = pair
    texts = tf.constant(TEXTS)
    segments = [preprocessor.tokenize(x) for x in (texts, texts[::-1])]
    for length, arguments in (
        (LENGTH, {}),
        (7, {"seq_length": 7}),
        (7, {"seq_length": tf.constant(7)}),
    ):
        sizes = {"max_length": length, "padding": "max_length"}
        single = tokenizer(TEXTS, **sizes)
        double = tokenizer(TEXTS, TEXTS[::-1], **sizes)
        same(preprocessor(texts, **arguments), single)
        same(preprocessor([texts, texts[::-1]], **arguments), double)
        pack = preprocessor.bert_pack_inputs
        same(pack(segments[:1], **arguments), single)
        same(pack(segments, **arguments), double)
        # Words of several pieces, as WordPiece tokenizers return them.
        words = [tf.expand_dims(segment, 1) for segment in segments]
        same(pack(words, **arguments), double)


def test_shapes_are_known_in_a_dataset(pair):
    preprocessor, tokenizer = pair

    def by_parts(texts):
        tokens = preprocessor.tokenize(texts)
        return preprocessor.bert_pack_inputs([tokens], seq_length=7)

    def whole(texts):
        return preprocessor(texts, seq_length=7)

    # Batches of known and unknown size.
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    expected = tokenizer(TEXTS, max_length=7, padding="max_length")
    for function in (by_parts, whole):
        for drop, batch in ((False, None), (True, 2)):
            mapped = texts.batch(2, drop_remainder=drop).map(function)
            for spec in mapped.element_spec.values():
                assert spec.shape.as_list() == [batch, 7]
        rows = np.concatenate([x["input_word_ids"] for x in mapped])
        ids = expected["input_word_ids"][: len(rows)]
        np.testing.assert_array_equal(rows, ids)
    default = texts.batch(2).map(preprocessor).element_spec["input_mask"]
    assert default.shape.as_list() == [None, LENGTH]


def test_there_are_no_variables(pair):
    for part in (pair[0], pair[0].tokenize):
        assert list(part.variables) == list(part.trainable_variables) == []


@pytest.mark.long
def test_wordpiece(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"aegmodvi"]
    pieces += [f"##{c}" for c in "aegmodvi"] + ["中", ",", "good", "##ie"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(pieces), "utf-8")
    tokenizer = AlbertTokenizer.from_file(vocabulary)
    export_preprocessor(tokenizer, tmp_path / "p", seq_length=9)
    loaded = tf.saved_model.load(tmp_path / "p")
    asset = pathlib.Path(loaded.vocab_file.asset_path.numpy().decode())
    assert asset.read_bytes() == vocabulary.read_bytes()
    texts = ["A good Movie, 中中", "É!", ""]
    expected = tokenizer(texts, max_length=9, padding="max_length")
    for name, values in loaded(tf.constant(texts)).items():
        assert (values.numpy() == expected[name]).all()
    ids = loaded.tokenize(tf.constant(texts)).to_list()
    assert ids == tokenizer.encode(texts)
