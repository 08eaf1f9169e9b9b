"""Ids against the slow tokenizers of transformers 4, the last that has them."""

import itertools
import json
import random

import pytest

from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import (
    HUGGING_FACE_SLOW,
    HUGGING_FACE_SLOW_WORDPIECE,
)
from albert_tf.text.tokenizer_files import load_tokenizer

pytestmark = pytest.mark.peer

transformers = pytest.importorskip("transformers")
if not transformers.__version__.startswith("4."):
    pytest.skip(
        f"transformers {transformers.__version__} has no slow tokenizer",
        allow_module_level=True,
    )

# Hugging Face's options, and ours.
SENTENCEPIECE = [
    ({}, {}),
    ({"do_lower_case": False}, {"do_lower_case": False}),
    ({"keep_accents": True}, {"strip_accents": False}),
    (
        {"do_lower_case": False, "keep_accents": True},
        {"do_lower_case": False, "strip_accents": False},
    ),
]
WORDPIECE = [
    {
        "do_lower_case": lower,
        "strip_accents": strip,
        "tokenize_chinese_chars": chinese,
    }
    for lower, strip, chinese in itertools.product(
        (True, False), (None, True, False), (True, False)
    )
]
OPTIONS = [
    *(("spiece.model", theirs, ours) for theirs, ours in SENTENCEPIECE),
    *(("vocab.txt", options, options) for options in WORDPIECE),
]
DEFAULTS = {
    "spiece.model": HUGGING_FACE_SLOW,
    "vocab.txt": HUGGING_FACE_SLOW_WORDPIECE,
}


@pytest.fixture
def both(clean_model, odd_vocabulary, tmp_path):
    """Returns `both(name, ...)`: the slow tokenizer of a model, and ours."""
    # Not those of the package itself, which another release makes the fast.
    from transformers.models.albert import tokenization_albert as albert
    from transformers.models.bert import tokenization_bert as bert

    kinds = {
        "spiece.model": (albert.AlbertTokenizer, clean_model.read_bytes()),
        "vocab.txt": (bert.BertTokenizer, odd_vocabulary),
    }

    def make(name, theirs=None, ours=None, content=None):
        slow_class, usual = kinds[name]
        path = tmp_path / name
        path.write_bytes(content or usual)
        slow = slow_class(str(path), **theirs or {})
        settings = {**DEFAULTS[name], **(ours or {})}
        return slow, AlbertTokenizer.from_file(path, **settings)

    return make


def ids_of(slow, texts):
    return [slow.encode(text, add_special_tokens=False) for text in texts]


@pytest.mark.parametrize(("name", "theirs", "ours"), OPTIONS)
def test_ids_of_hostile_texts(
    both, special_texts, odd_texts, marked_texts, same_ids, name, theirs, ours
):
    slow, tokenizer = both(name, theirs, ours)
    texts = [*special_texts, *odd_texts]
    if name == "vocab.txt":
        texts += marked_texts
        assert [tokenizer.tokenize(t) for t in texts[:500]] == [
            slow.tokenize(t) for t in texts[:500]
        ]
    assert same_ids(tokenizer.encode(texts), ids_of(slow, texts))


def test_ids_of_all_vectors(both, shared, vectors):
    """The stored ids are the real tokenizer's, and ours."""
    slow, tokenizer = both("spiece.model")
    path = shared("golden", "google", "tokenization", "tokenization.json")
    golden = json.loads(path.read_text())
    texts = [case["text"] for case in golden]
    assert ids_of(slow, texts) == [case["hf_slow_ids"] for case in golden]
    assert tokenizer.encode(vectors) == ids_of(slow, vectors)


def test_ids_of_word_internal_digits_with_commas(both, comma_model):
    generator = random.Random(0)
    parts = [*"0123,,a x٢", "2000,", "34,", "00,", "x1,", "[MASK]", " "]
    texts = [
        "".join(generator.choices(parts, k=generator.randrange(1, 9)))
        for _ in range(4000)
    ]
    slow, tokenizer = both("spiece.model", content=comma_model.read_bytes())
    assert tokenizer.encode(texts) == ids_of(slow, texts)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "count"), [("spiece.model", 1000), ("vocab.txt", 10_000)]
)
def test_ids_of_real_texts(
    both, wordpiece_vocabulary, sentences, same_ids, language, name, count
):
    texts, content = sentences(language, count), None
    if name == "vocab.txt":
        content = wordpiece_vocabulary(texts[:1000], 21_000)
    slow, tokenizer = both(name, content=content)
    assert same_ids(tokenizer.encode(texts), ids_of(slow, texts))


@pytest.mark.parametrize(("theirs", "ours"), SENTENCEPIECE)
def test_ids_of_folders_of_the_fast_tokenizer(
    clean_model,
    both,
    sentences,
    special_texts,
    same_ids,
    tmp_path,
    theirs,
    ours,
):
    """The fast one writes added tokens, at which the slow one cuts texts."""
    fast = transformers.AlbertTokenizerFast(str(clean_model), **theirs)
    fast.save_pretrained(tmp_path / "fast")
    slow_class = type(both("spiece.model")[0])
    slow = slow_class.from_pretrained(tmp_path / "fast")
    tokenizer = load_tokenizer(tmp_path / "fast")
    assert tokenizer.settings == {
        **HUGGING_FACE_SLOW,
        "cut_at_user_defined_pieces": True,
        **ours,
    }
    texts = [*sentences("en", 1000), *special_texts]
    assert same_ids(tokenizer.encode(texts), ids_of(slow, texts))


def test_long_words(both, wordpiece_golden):
    content = (wordpiece_golden / "vocab.txt").read_bytes()
    slow, tokenizer = both("vocab.txt", content=content)
    texts = [c * n for c in "aé中" for n in (99, 100, 101, 300)]
    assert tokenizer.encode(texts) == ids_of(slow, texts)


def test_the_stored_pieces(both, wordpiece_golden):
    content = (wordpiece_golden / "vocab.txt").read_bytes()
    golden = json.loads((wordpiece_golden / "golden.json").read_text())
    for case in golden["tokenizers"]:
        pieces = case.pop("pieces")
        if case.pop("rules") == "hugging_face":
            slow, _ = both("vocab.txt", case, content=content)
            found = [" ".join(slow.tokenize(text)) for text in golden["texts"]]
            assert found == pieces


@pytest.mark.parametrize("name", DEFAULTS)
def test_pairs_and_text(both, name):
    slow, tokenizer = both(name)
    texts = ["Who is [MASK]?", "9,9 中文", "x"]
    pairs = ["``The World''.", "", "ΑΣ [SEP]"]
    expected = slow(texts, pairs, padding=True)
    found = tokenizer(texts, pairs)
    assert found["input_word_ids"].tolist() == expected["input_ids"]
    assert found["input_type_ids"].tolist() == expected["token_type_ids"]
    assert found["input_mask"].tolist() == expected["attention_mask"]
    if name == "vocab.txt":
        ids = tokenizer.encode("Hello the World, 中文")
        text = slow.decode(ids, clean_up_tokenization_spaces=False)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("name", "theirs", "ours"), [*OPTIONS[:4], *OPTIONS[4::2]]
)
def test_folders_in_both_directions(
    both, special_texts, same_ids, tmp_path, save, name, theirs, ours
):
    texts = special_texts[:500]
    slow, _ = both(name, theirs)
    slow.save_pretrained(tmp_path / "theirs")
    tokenizer = load_tokenizer(tmp_path / "theirs")
    assert tokenizer.settings == {**DEFAULTS[name], **ours}
    expected = ids_of(slow, texts)
    assert same_ids(tokenizer.encode(texts), expected)

    again = type(slow).from_pretrained(save(tokenizer, tmp_path / "ours"))
    assert ids_of(again, texts) == expected
    assert again.model_input_names == [
        *("input_ids", "token_type_ids", "attention_mask")
    ]
