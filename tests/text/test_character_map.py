"""SentencePiece models that give a tokenizer's ids on their own."""

import struct

import numpy as np
import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text import character_map
from albert_tf.text.charsmap import charsmap_rules, check_charsmap
from albert_tf.text.sentencepiece_model import check_model
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

SETTINGS = {
    "google": {},
    "slow": {**HUGGING_FACE_SLOW, "match_special_tokens": False},
    "accents": {"strip_accents": False},
    "cased": {"do_lower_case": False},
    "neither": {"do_lower_case": False, "strip_accents": False},
}


def own_processor(tokenizer):
    model = character_map.with_own_normalizer(tokenizer)
    check_model(model)
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def different(tokenizer, texts):
    """Returns the texts whose ids differ."""
    ids = own_processor(tokenizer).encode(texts)
    pairs = zip(texts, tokenizer.encode(texts), ids, strict=True)
    return [text for text, ours, theirs in pairs if ours != theirs]


@pytest.mark.parametrize(
    "name",
    [
        "google",
        *(pytest.param(x, marks=pytest.mark.long) for x in list(SETTINGS)[1:]),
    ],
)
def test_ids_of_the_released_vocabulary(
    clean_model,
    sentences,
    characters,
    odd_texts,
    quoted_texts,
    special_texts,
    name,
):
    tokenizer = AlbertTokenizer.from_file(clean_model, **SETTINGS[name])
    texts = [
        *sentences("en", 4000),
        *sentences("zh", 2000),
        *characters,
        *(x + y for x in "eΣᄒ하" for y in characters[::40]),
        *odd_texts,
        *quoted_texts,
        *special_texts,
    ]
    assert different(tokenizer, texts) == []


@pytest.fixture(scope="module")
def greek(tmp_path_factory):
    """A vocabulary with both small sigmas and accented letters."""
    lines = ["οδός σας ΑΣ é a 1 2 , ´ 한국 하 ii"] * 20
    prefix = tmp_path_factory.mktemp("greek") / "spiece"
    return train_vocabulary(
        lines, prefix, VocabularyConfig(vocab_size=30, do_lower_case=False)
    )


@pytest.mark.long
def test_what_remains_different_is_listed(greek, comma_model):
    tokenizer = AlbertTokenizer.from_file(greek)
    texts = [
        "ΟΔΟΣ",
        "ΟΔΌΣ ΣΑΣ",
        "Σ",
        "ΣΑ É",
        "İI e\u0301",
        "\u1112\u1161\u11ab",
    ]
    assert different(tokenizer, texts) == texts[:2]
    (difference,) = character_map.remaining_differences(tokenizer)
    assert difference.startswith("capital sigmas")
    characterwise = tokenizer.with_settings(lower_characters_first=True)
    assert different(characterwise, texts) == []
    assert character_map.remaining_differences(characterwise) == []

    tokenizer = AlbertTokenizer.from_file(
        comma_model,
        lower_characters_first=True,
        match_special_tokens=True,
        cut_at_user_defined_pieces=True,
    )
    assert len(character_map.remaining_differences(tokenizer)) == 3
    # Google's rule begins a new word within "a2,".
    assert different(tokenizer, ["2000, 34,", "a2,", "[MASK]"]) == [
        "a2,",
        "[MASK]",
    ]


def test_charsmaps_without_an_end_are_errors():
    """All children of the root lead back to where it leads."""
    letters = np.arange(256, dtype="<u4")
    units = np.zeros(512, "<u4")
    units[256 ^ letters] = letters << 10 | letters
    units[0], units[256] = 256 << 10, 0
    charsmap = struct.pack("<I", units.nbytes) + units.tobytes() + b"x\0"
    check_charsmap(charsmap)
    with pytest.raises(InputError, match="its rules have no end"):
        charsmap_rules(charsmap)


def test_rules_are_those_that_were_compiled():
    rules = {
        "A": "a",
        "\u0301": "",
        "``": '"',
        "한": "ab",
        "e\u0323\u0301": "x",
    }
    compiled = character_map.compile_rules(rules)
    assert charsmap_rules(compiled) == rules
    assert character_map.compile_rules({}) == b""
    assert charsmap_rules(b"") == {}
    text = "Ae\u0301 ``` e\u0323\u0301한"
    assert character_map.replace(text, rules) == 'ae "` xab'
    model = sentencepiece_model_pb2.ModelProto()
    model.normalizer_spec.precompiled_charsmap = compiled
    check_model(model.SerializeToString())
