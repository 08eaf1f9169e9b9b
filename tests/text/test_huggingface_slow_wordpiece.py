"""Ids against the slow BertTokenizer of transformers 4, the last there is."""

import itertools
import json

import pytest

from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.text.wordpiece_tokenizer import (
    HUGGING_FACE_SLOW_WORDPIECE,
    WordPieceTokenizer,
)

pytestmark = pytest.mark.peer

transformers = pytest.importorskip("transformers")
if not transformers.__version__.startswith("4."):
    pytest.skip(
        f"transformers {transformers.__version__} has no slow tokenizer",
        allow_module_level=True,
    )

OPTIONS = [
    {
        "do_lower_case": lower,
        "strip_accents": strip,
        "tokenize_chinese_chars": chinese,
    }
    for lower, strip, chinese in itertools.product(
        (True, False), (None, True, False), (True, False)
    )
]


@pytest.fixture(scope="module")
def slow_tokenizer(tmp_path_factory):
    # Not transformers.BertTokenizer, which another release makes the fast.
    from transformers.models.bert.tokenization_bert import BertTokenizer

    def make(content, **options):
        path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
        path.write_bytes(content)
        return BertTokenizer(str(path), **options)

    return make


def ids_of(slow, texts):
    return [slow.encode(text, add_special_tokens=False) for text in texts]


def ours(content, options):
    settings = {**HUGGING_FACE_SLOW_WORDPIECE, **options}
    return WordPieceTokenizer(content, **settings)


@pytest.mark.parametrize("options", OPTIONS)
def test_ids_of_hostile_texts(
    odd_vocabulary,
    odd_texts,
    special_texts,
    marked_texts,
    slow_tokenizer,
    options,
):
    slow = slow_tokenizer(odd_vocabulary, **options)
    tokenizer = ours(odd_vocabulary, options)
    texts = [*odd_texts, *special_texts, *marked_texts]
    assert tokenizer.encode(texts) == ids_of(slow, texts)
    assert [tokenizer.tokenize(t) for t in special_texts[:500]] == [
        slow.tokenize(t) for t in special_texts[:500]
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ids_of_real_texts(
    wordpiece_vocabulary, sentences, slow_tokenizer, language
):
    texts = sentences(language, 10_000)
    content = wordpiece_vocabulary(texts[:1000], 21_000)
    expected = ids_of(slow_tokenizer(content), texts)
    assert ours(content, {}).encode(texts) == expected


def test_long_words(wordpiece_golden, slow_tokenizer):
    content = (wordpiece_golden / "vocab.txt").read_bytes()
    texts = [c * n for c in "aé中" for n in (99, 100, 101, 300)]
    expected = ids_of(slow_tokenizer(content), texts)
    assert ours(content, {}).encode(texts) == expected


def test_the_stored_pieces(wordpiece_golden, slow_tokenizer):
    content = (wordpiece_golden / "vocab.txt").read_bytes()
    golden = json.loads((wordpiece_golden / "golden.json").read_text())
    for case in golden["tokenizers"]:
        pieces = case.pop("pieces")
        if case.pop("rules") == "hugging_face":
            slow = slow_tokenizer(content, **case)
            found = [" ".join(slow.tokenize(text)) for text in golden["texts"]]
            assert found == pieces


def test_pairs_and_text(odd_vocabulary, slow_tokenizer):
    slow = slow_tokenizer(odd_vocabulary)
    tokenizer = ours(odd_vocabulary, {})
    texts = ["Hello in [MASK]?", "中文", "x"]
    pairs = ["The World.", "", "ΑΣ [SEP]"]
    expected = slow(texts, pairs, padding=True)
    found = tokenizer(texts, pairs)
    assert found["input_word_ids"].tolist() == expected["input_ids"]
    assert found["input_type_ids"].tolist() == expected["token_type_ids"]
    assert found["input_mask"].tolist() == expected["attention_mask"]
    ids = tokenizer.encode("Hello the World, 中文")
    assert tokenizer.decode(ids) == slow.decode(
        ids, clean_up_tokenization_spaces=False
    )


@pytest.mark.parametrize("options", OPTIONS[::2])
def test_folders_in_both_directions(
    odd_vocabulary, special_texts, slow_tokenizer, tmp_path, save, options
):
    texts = special_texts[:500]
    slow = slow_tokenizer(odd_vocabulary, **options)
    slow.save_pretrained(tmp_path / "theirs")
    tokenizer = load_tokenizer(tmp_path / "theirs")
    assert tokenizer.settings == {**HUGGING_FACE_SLOW_WORDPIECE, **options}
    expected = ids_of(slow, texts)
    assert tokenizer.encode(texts) == expected

    again = type(slow).from_pretrained(save(tokenizer, tmp_path / "ours"))
    assert ids_of(again, texts) == expected
    assert again.model_input_names == [
        *("input_ids", "token_type_ids", "attention_mask")
    ]
