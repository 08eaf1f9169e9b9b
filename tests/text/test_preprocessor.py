import random

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of SavedModels)
from sentencepiece import sentencepiece_model_pb2

from albert_tf.text.preprocessor_layer import AlbertPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW

OPTIONS = [
    {},
    {"digit_comma": "corrected"},
    {"do_lower_case": False},
    {"strip_accents": False, "digit_comma": "corrected"},
    {"match_special_tokens": True, "digit_comma": "off"},
    {"do_lower_case": False, "replace_latex_quotes": True},
    HUGGING_FACE_SLOW,
    {"cut_at_user_defined_pieces": True},
    {**HUGGING_FACE_SLOW, "cut_at_user_defined_pieces": True},
]


@pytest.fixture(scope="module")
def preprocessor(clean_model):
    return AlbertPreprocessor(clean_model, seq_length=16)


@pytest.mark.parametrize("options", OPTIONS)
def test_ids_equal_python_on_odd_texts(
    clean_model, odd_texts, special_texts, in_batches, same_ids, options, each
):
    texts = [*odd_texts[:9], *odd_texts[9::each], *special_texts[::each]]
    preprocessor = AlbertPreprocessor(clean_model, **options)
    ids = in_batches(preprocessor.tokenize, texts)
    expected = AlbertTokenizer.from_file(clean_model, **options).encode(texts)
    assert same_ids(ids, expected)


@pytest.mark.parametrize("rule", ["google", "corrected", "off"])
def test_ids_equal_python_with_digit_commas(
    comma_model, in_batches, same_ids, rule, each
):
    generator = np.random.default_rng(0)
    alphabet = list("0123,,a x٢") + ["2000,", "34,", "00,", "x1,"]
    texts = [
        "".join(generator.choice(alphabet, generator.integers(1, 9)))
        for _ in range(4000 // each)
    ]
    preprocessor = AlbertPreprocessor(comma_model, digit_comma=rule)
    ids = in_batches(preprocessor.tokenize, texts)
    assert same_ids(ids, preprocessor.tokenizer.encode(texts))
    other = "corrected" if rule == "google" else "google"
    other = AlbertTokenizer.from_file(comma_model, digit_comma=other)
    assert other.encode(texts) != ids


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ids_equal_python_on_real_texts(
    preprocessor, sentences, in_batches, same_ids, language, each
):
    texts = sentences(language, 20_000)[::each]
    ids = in_batches(preprocessor.tokenize, texts)
    assert same_ids(ids, preprocessor.tokenizer.encode(texts))


def test_packing_equals_python(preprocessor, sentences):
    texts, pairs = sentences("en", 200)[:100], sentences("en", 200)[100:]
    for length in (5, 128):
        for inputs in ((texts,), (texts, pairs)):
            expected = preprocessor.tokenizer(
                *inputs, max_length=length, padding="max_length"
            )
            packed = preprocessor(*inputs, seq_length=length)
            assert packed.keys() == expected.keys()
            for name, values in packed.items():
                assert values.dtype == tf.int32
                np.testing.assert_array_equal(values, expected[name])
            nested = inputs if pairs in inputs else texts
            for arguments in ((nested, None), (nested, length)):
                packed = preprocessor(*arguments, seq_length=length)
                np.testing.assert_array_equal(
                    packed["input_word_ids"], expected["input_word_ids"]
                )


def equal(outputs, expected):
    assert outputs.keys() == expected.keys()
    for name, values in outputs.items():
        np.testing.assert_array_equal(values, expected[name])


def test_layer_of_a_saved_model(clean_model, tmp_path):
    preprocessor = AlbertPreprocessor(
        clean_model, 12, name="text", **HUGGING_FACE_SLOW
    )
    first = keras.Input((), dtype="string")
    second = keras.Input((), dtype="string")
    symbolic = preprocessor(first, second)
    assert {x.shape for x in symbolic.values()} == {(None, 12)}
    assert preprocessor([first, second], seq_length=9)["input_mask"].shape == (
        *(None, 9),
    )
    model = keras.Model([first, second], symbolic)
    texts, pairs = ["A [MASK]", "2,000"], ["``b''", ""]
    expected = preprocessor.tokenizer(texts, pairs, 12, "max_length")
    inputs = [tf.constant(texts), tf.constant(pairs)]
    model.save(tmp_path / "model.keras")
    for each in (
        *(model, keras.models.clone_model(model)),
        keras.saving.load_model(tmp_path / "model.keras"),
    ):
        equal(each(inputs), expected)
        assert each.get_layer("text").tokenizer.settings == (
            preprocessor.tokenizer.settings
        )
    equal(each.predict(tuple(inputs), verbose=0), expected)


def test_layer_of_a_word_piece_vocabulary(wordpiece_golden):
    layer = AlbertPreprocessor(wordpiece_golden / "vocab.txt", 8)
    copy = AlbertPreprocessor.from_config(layer.get_config())
    assert copy.tokenizer.fingerprint == layer.tokenizer.fingerprint
    equal(copy(["un able"]), layer(["un able"]))


def test_arguments_of_the_constructor(clean_model):
    for arguments in ({}, {"path": clean_model, "tokenizer": object()}):
        with pytest.raises(TypeError, match="either path or tokenizer"):
            AlbertPreprocessor(**arguments)


@pytest.mark.parametrize("options", OPTIONS)
def test_offsets_equal_python_in_bytes(
    clean_model,
    comma_model,
    odd_texts,
    special_texts,
    assert_offsets,
    options,
    each,
):
    texts = [*odd_texts[:9], *odd_texts[9:1000:each]]
    texts += special_texts[:1000:each]
    texts += ["a34, １，", "2,é,\u03012,", "[MASK]", "<pad>２,[SEP][SEP] ", ""]
    assert_offsets(AlbertPreprocessor(clean_model, **options), texts)
    if options in OPTIONS[:2] or options == HUGGING_FACE_SLOW:
        # Only here the rules for commas differ.
        assert_offsets(AlbertPreprocessor(comma_model, **options), texts)


def test_pairs_as_arrays(preprocessor):
    expected = preprocessor(["Who?", "a"], ["He.", "b"])
    for kind in (None, object):
        arrays = [np.array(x, kind) for x in (["Who?", "a"], ["He.", "b"])]
        equal(preprocessor(*arrays), expected)


def test_a_copy_has_the_length_of_the_model(clean_model):
    tokenizer = AlbertTokenizer.from_file(clean_model).with_max_length(64)
    layer = AlbertPreprocessor.from_tokenizer(tokenizer)
    copy = AlbertPreprocessor.from_config(layer.get_config())
    assert copy.tokenizer.model_max_length == 64
    assert copy.seq_length == layer.seq_length


def test_forms_of_the_input(preprocessor):
    one = preprocessor(tf.constant(["Who?"]))
    assert one["input_word_ids"].shape == [1, 16]
    assert preprocessor("Who?")["input_mask"].shape == [1, 16]
    assert preprocessor("Who?", "He.")["input_type_ids"].numpy().sum() == 3
    # A list of Python strings is a batch; of tensors or lists, a pair.
    assert preprocessor(["Who?", "He."])["input_mask"].shape == [2, 16]
    pair = preprocessor(
        [tf.constant(["Question?"]), tf.constant(["Answer"])], 6
    )
    assert pair["input_word_ids"].numpy().tolist() == [
        [2, 1301, 60, 3, 1623, 3]
    ]
    assert pair["input_type_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1]]
    assert preprocessor(tf.zeros([0], tf.string))["input_mask"].shape == [0, 16]
    with pytest.raises(ValueError, match=r"\[batch\], not of shape \(\)"):
        preprocessor(tf.constant("Who?"))
    with pytest.raises(ValueError, match="seq_length=2 must be at least 3"):
        preprocessor((["a"], ["b"]), seq_length=2)
    with pytest.raises(ValueError, match="not of 3"):
        preprocessor((["a"], ["b"], ["c"]))


def test_static_shape_in_a_dataset(clean_model):
    preprocessor = AlbertPreprocessor(clean_model, **HUGGING_FACE_SLOW)
    texts = tf.data.Dataset.from_tensor_slices(
        (["a", "b", "c"], ["d", "", "f"])
    )

    def encode(first, second):
        return preprocessor((first, second), seq_length=8)

    dataset = texts.batch(2).map(encode, tf.data.AUTOTUNE)
    for spec in dataset.element_spec.values():
        assert spec == tf.TensorSpec([None, 8], tf.int32)
    assert [len(batch["input_mask"]) for batch in dataset] == [2, 1]
    for size in (1, 3):
        dataset = texts.batch(size, drop_remainder=True)
        tokens = dataset.map(
            tf.autograph.experimental.do_not_convert(
                lambda first, _: preprocessor.tokenize(first)
            )
        )
        assert tokens.element_spec.shape.as_list() == [size, None]


@pytest.mark.long
def test_saves_in_a_module(clean_model, tmp_path):
    """As the export room does: a wrapper with traced functions."""

    class Wrapper(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts):
            return self.preprocessor(texts)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def offsets(self, texts):
            return self.preprocessor.tokenize_with_offsets(texts)

    preprocessor = AlbertPreprocessor(clean_model, 16, **HUGGING_FACE_SLOW)
    wrapper = Wrapper()
    wrapper.preprocessor = preprocessor
    tf.saved_model.save(wrapper, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))

    texts = ["ΟΔΟΣ é½ 2000, x", "", "\u3000 a", "``a [MASK] b''<PAD>"]
    for name, values in loaded(tf.constant(texts)).items():
        np.testing.assert_array_equal(values, preprocessor(texts)[name])
    dataset = tf.data.Dataset.from_tensors(texts).map(loaded.offsets)
    for values, in_dataset, expected in zip(
        loaded.offsets(tf.constant(texts)),
        next(iter(dataset)),
        preprocessor.tokenize_with_offsets(texts),
        strict=True,
    ):
        assert values.to_list() == expected.to_list()
        assert in_dataset.to_list() == expected.to_list()
    # The tables are saved once, not once for each function.
    size = (tmp_path / "saved_model.pb").stat().st_size
    assert size < 760_289 * 2 + 1_700_000


def test_works_after_a_seed_is_set(comma_model):
    """Setting a seed clears a cache that holds TensorFlow Text's models."""
    preprocessor = AlbertPreprocessor(comma_model)
    texts = tf.constant(["12,345 is a number"])
    traced = tf.function(preprocessor.tokenize, autograph=False)
    data = tf.data.Dataset.from_tensors(texts).map(preprocessor)
    expected = preprocessor.tokenize(texts).to_list()
    assert traced(texts).to_list() == expected
    (before,) = data
    for set_seed in (tf.random.set_seed, keras.utils.set_random_seed):
        set_seed(7)
        assert preprocessor.tokenize(texts).to_list() == expected
        assert traced(texts).to_list() == expected
        (after,) = data
        equal(after, before)


def test_several_models_in_one_process(comma_model, clean_model):
    text = ["A number, 12,345"]
    for model in (comma_model, clean_model, comma_model):
        expected = AlbertTokenizer.from_file(model).encode(text)
        found = AlbertPreprocessor(model).tokenize(tf.constant(text))
        assert found.to_list() == expected


@pytest.mark.parametrize(
    "raw", [b"\xe4[MASK]\xff", b"\xf0\x9f<PAD>\x98x", b"[CLS\xc3]", b"\xff"]
)
def test_special_tokens_in_invalid_utf8(clean_model, raw):
    preprocessor = AlbertPreprocessor(clean_model, **HUGGING_FACE_SLOW)
    text = raw.decode("utf-8", errors="replace")
    expected = preprocessor.tokenizer.encode([text, "a"])
    assert preprocessor.tokenize([raw, b"a"]).to_list() == expected


def test_splits_at_any_user_defined_piece(clean_model, in_batches):
    """Also at control characters, which could mark where texts are cut."""
    model = sentencepiece_model_pb2.ModelProto.FromString(
        clean_model.read_bytes()
    )
    odd = ["\x01", "\x02m", "\x03", "e", "m", "em", "a.b", "\\", "|", "é"]
    by_name = {piece.piece: piece for piece in model.pieces}
    for name, rare in zip(odd, model.pieces[::-1], strict=False):
        piece = by_name.get(name, rare)
        piece.piece, piece.type = name, piece.USER_DEFINED
    tokenizer = AlbertTokenizer(
        model.SerializeToString(),
        match_special_tokens=True,
        cut_at_user_defined_pieces=True,
    )
    assert tokenizer.tokenize("them -a.b")[-3:] == ["em", "-", "a.b"]
    generator = random.Random(0)
    parts = [*odd, *"\x02\x04\x05aEMthg.- É", "[MASK]", "…"]
    texts = [
        "".join(generator.choices(parts, k=generator.randrange(9)))
        for _ in range(4000)
    ]
    preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
    assert in_batches(preprocessor.tokenize, texts) == tokenizer.encode(texts)
