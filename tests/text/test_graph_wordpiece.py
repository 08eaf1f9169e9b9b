"""The graph of WordPiece against Python."""

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the operations of SavedModels)

from albert_tf.errors import InputError
from albert_tf.text.preprocessor_layer import AlbertPreprocessor
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

OPTIONS = [
    {},
    {"do_lower_case": False},
    {"strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"tokenize_chinese_chars": False, "match_special_tokens": True},
    {"rules": "hugging_face", "match_special_tokens": True},
]


@pytest.fixture
def graph_ids(in_batches):
    def run(tokenizer, texts):
        preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
        tokenize = tf.function(
            preprocessor.tokenize,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )
        return in_batches(tokenize, texts)

    return run


@pytest.mark.parametrize("options", OPTIONS)
def test_ids_equal_python_on_adversarial_texts(
    odd_vocabulary,
    odd_texts,
    special_texts,
    marked_texts,
    graph_ids,
    options,
    each,
):
    tokenizer = AlbertWordPieceTokenizer(odd_vocabulary, **options)
    texts = [*odd_texts[:9], *odd_texts[9::each]]
    texts += special_texts[::each] + marked_texts[::each]
    assert graph_ids(tokenizer, texts) == tokenizer.encode(texts)


@pytest.mark.parametrize("options", OPTIONS)
def test_offsets_equal_python(
    odd_vocabulary,
    odd_texts,
    special_texts,
    marked_texts,
    assert_offsets,
    options,
    each,
):
    tokenizer = AlbertWordPieceTokenizer(odd_vocabulary, **options)
    texts = [*odd_texts[:9], *odd_texts[9:2000:each]]
    texts += special_texts[:2000:each] + marked_texts[:2000:each]
    texts.append(f"a {'é' * 201} b")
    assert_offsets(AlbertPreprocessor.from_tokenizer(tokenizer), texts)


@pytest.mark.parametrize("rules", ["google", "hugging_face"])
def test_every_code_point(odd_vocabulary, characters, graph_ids, rules):
    tokenizer = AlbertWordPieceTokenizer(odd_vocabulary, rules=rules)
    texts = [
        " ".join(f"a{c}b {c}" for c in characters[i : i + 64])
        for i in range(0, len(characters), 64)
    ]
    assert graph_ids(tokenizer, texts) == tokenizer.encode(texts)


def test_long_words(wordpiece_golden, graph_ids):
    tokenizer = AlbertWordPieceTokenizer.from_file(
        wordpiece_golden / "vocab.txt"
    )
    texts = [c * n for c in "aé中" for n in (199, 200, 201, 900)]
    texts += ["e\u0301" * 200, "e\u0301" * 201]
    assert graph_ids(tokenizer, texts) == tokenizer.encode(texts)


@pytest.mark.parametrize("texts", [[], [""], ["", " \x00", "a", ""]])
def test_nothing(odd_vocabulary, texts):
    tokenizer = AlbertWordPieceTokenizer(odd_vocabulary)
    preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
    texts_tensor = tf.constant(texts, tf.string)
    expected = tokenizer.encode(texts)
    assert preprocessor.tokenize(texts_tensor).to_list() == expected
    ids, starts, ends = preprocessor.tokenize_with_offsets(texts_tensor)
    assert ids.to_list() == expected
    assert starts.shape == ends.shape == ids.shape


def test_invalid_utf8_is_dropped(odd_vocabulary):
    tokenizer = AlbertWordPieceTokenizer(odd_vocabulary)
    preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
    broken = b"a\xff\xed\xa0\x80b \xe4\xb8"
    text = broken.decode("utf-8", errors="replace")
    ids = preprocessor.tokenize(tf.constant([broken])).to_list()
    assert ids == [tokenizer.encode(text)]


def test_composing_tokenizers_are_not_supported(odd_vocabulary):
    tokenizer = AlbertWordPieceTokenizer(
        odd_vocabulary, do_lower_case=False, rules="hugging_face"
    )
    with pytest.raises(InputError, match="tokenize in Python, or set rules="):
        AlbertPreprocessor.from_tokenizer(tokenizer)
