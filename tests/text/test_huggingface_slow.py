"""Ids against the slow tokenizer of transformers 4, the last that has one."""

import json
import random

import pytest

from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import HUGGING_FACE_SLOW, load_tokenizer

pytestmark = pytest.mark.peer

transformers = pytest.importorskip("transformers")
if not transformers.__version__.startswith("4."):
    pytest.skip(
        f"transformers {transformers.__version__} has no slow tokenizer",
        allow_module_level=True,
    )

# Hugging Face's options, and ours.
OPTIONS = [
    ({}, {}),
    ({"do_lower_case": False}, {"do_lower_case": False}),
    ({"keep_accents": True}, {"strip_accents": False}),
    (
        {"do_lower_case": False, "keep_accents": True},
        {"do_lower_case": False, "strip_accents": False},
    ),
]


def slow_tokenizer(clean_model, **options):
    # Not transformers.AlbertTokenizer, which another release makes the fast.
    from transformers.models.albert.tokenization_albert import AlbertTokenizer

    return AlbertTokenizer(vocab_file=str(clean_model), **options)


def slow_ids(tokenizer, texts):
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


@pytest.mark.parametrize(("theirs", "ours"), OPTIONS)
def test_ids_of_hostile_texts(
    clean_model, special_texts, odd_texts, same_ids, theirs, ours
):
    slow = slow_tokenizer(clean_model, **theirs)
    tokenizer = AlbertTokenizer.from_file(
        clean_model, **{**HUGGING_FACE_SLOW, **ours}
    )
    texts = [*special_texts, *odd_texts]
    assert same_ids(tokenizer.encode(texts), slow_ids(slow, texts))


def test_ids_of_all_vectors(clean_model, shared):
    """The stored ids are the real tokenizer's, and ours."""
    golden = json.loads(
        shared(
            "golden", "google", "tokenization", "tokenization.json"
        ).read_text()
    )
    oracles = json.loads(
        shared("data", "oracles", "tokenization_vectors.json").read_text()
    )
    slow = slow_tokenizer(clean_model)
    texts = [case["text"] for case in golden]
    assert slow_ids(slow, texts) == [case["hf_slow_ids"] for case in golden]
    texts += [
        case["text"]
        for case in (
            *oracles["published"],
            *oracles["derived_here_sentencepiece_0_2"],
            oracles["mask_case"],
        )
    ]
    tokenizer = AlbertTokenizer.from_file(clean_model, **HUGGING_FACE_SLOW)
    assert tokenizer.encode(texts) == slow_ids(slow, texts)


def test_ids_of_word_internal_digits_with_commas(comma_model):
    generator = random.Random(0)
    parts = [*"0123,,a x٢", "2000,", "34,", "00,", "x1,", "[MASK]", " "]
    texts = [
        "".join(generator.choices(parts, k=generator.randrange(1, 9)))
        for _ in range(4000)
    ]
    tokenizer = AlbertTokenizer.from_file(comma_model, **HUGGING_FACE_SLOW)
    expected = slow_ids(slow_tokenizer(comma_model), texts)
    assert tokenizer.encode(texts) == expected


def test_ids_of_real_texts(clean_model, sentences, same_ids):
    tokenizer = AlbertTokenizer.from_file(clean_model, **HUGGING_FACE_SLOW)
    slow = slow_tokenizer(clean_model)
    for language in ("en", "zh"):
        texts = sentences(language, 1000)
        assert same_ids(tokenizer.encode(texts), slow_ids(slow, texts))


@pytest.mark.parametrize(("theirs", "ours"), OPTIONS)
def test_ids_of_folders_of_the_fast_tokenizer(
    clean_model, sentences, special_texts, same_ids, tmp_path, theirs, ours
):
    """The fast one writes added tokens, at which the slow one cuts texts."""
    fast = transformers.AlbertTokenizerFast(str(clean_model), **theirs)
    fast.save_pretrained(tmp_path)
    slow = type(slow_tokenizer(clean_model)).from_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.settings == {
        **HUGGING_FACE_SLOW,
        "cut_at_user_defined_pieces": True,
        **ours,
    }
    texts = [*sentences("en", 1000), *special_texts]
    assert same_ids(tokenizer.encode(texts), slow_ids(slow, texts))


def test_pairs(clean_model):
    slow = slow_tokenizer(clean_model)
    tokenizer = AlbertTokenizer.from_file(clean_model, **HUGGING_FACE_SLOW)
    texts = ["Who is [MASK]?", "9,9", "x"]
    pairs = ["``He''.", "", "ΑΣ [SEP]"]
    expected = slow(texts, pairs, padding=True)
    found = tokenizer(texts, pairs)
    assert found["input_word_ids"].tolist() == expected["input_ids"]
    assert found["input_type_ids"].tolist() == expected["token_type_ids"]
    assert found["input_mask"].tolist() == expected["attention_mask"]


@pytest.mark.parametrize(("theirs", "ours"), OPTIONS)
def test_folders_in_both_directions(
    clean_model, special_texts, same_ids, tmp_path, save, theirs, ours
):
    texts = special_texts[:500]
    slow = slow_tokenizer(clean_model, **theirs)
    slow.save_pretrained(tmp_path / "theirs")
    tokenizer = load_tokenizer(tmp_path / "theirs")
    assert tokenizer.settings == {**HUGGING_FACE_SLOW, **ours}
    expected = slow_ids(slow, texts)
    assert same_ids(tokenizer.encode(texts), expected)

    again = type(slow).from_pretrained(save(tokenizer, tmp_path / "ours"))
    assert slow_ids(again, texts) == expected
    assert again.model_input_names == [
        *("input_ids", "token_type_ids", "attention_mask")
    ]
