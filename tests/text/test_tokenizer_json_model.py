"""Tokenizers whose folder holds no spiece.model, only tokenizer.json.

data/ holds a tiny model, and what two releases of transformers saved of it.
"""

import base64
import copy
import json
import pathlib
import re
import unicodedata

import pytest
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW
from albert_tf.text.tokenizer_json import (
    FIRST_ACCENTS,
    TOKENIZER_JSON,
    accents_pattern,
    tokenizer_json,
)
from albert_tf.text.tokenizer_json_reader import read_tokenizer_json

DATA = pathlib.Path(__file__).parent / "data" / "tokenizer_json"
TINY = DATA / "spiece.model"
SAVED = ["transformers-4.57", "transformers-5.23"]


def rebuilt(tokenizer):
    """Returns the tokenizer as its `tokenizer.json` brings it back."""
    found = read_tokenizer_json(tokenizer_json(tokenizer), "tokenizer.json")
    return AlbertTokenizer(found.model_bytes, **tokenizer.settings)


@pytest.mark.parametrize("settings", [{}, HUGGING_FACE_SLOW])
def test_google_model_is_rebuilt(
    clean_model, vectors, sentences, special_texts, pieces_of, settings, each
):
    tokenizer = AlbertTokenizer.from_file(clean_model, **settings)
    again = rebuilt(tokenizer)
    assert pieces_of(again.model_bytes) == pieces_of(tokenizer.model_bytes)
    texts = [
        *vectors,
        *sentences("en", 2000)[::each],
        *sentences("zh", 200)[::each],
        *special_texts[::each],
    ]
    assert len(vectors) == 302
    assert again.encode(texts) == tokenizer.encode(texts)
    assert again.special_tokens == tokenizer.special_tokens
    assert again.splits == tokenizer.splits


def test_specification_is_that_of_google_model(clean_model):
    tokenizer = AlbertTokenizer.from_file(clean_model)
    found, expected = (
        sentencepiece_model_pb2.ModelProto.FromString(t.model_bytes)
        for t in (rebuilt(tokenizer), tokenizer)
    )
    for name in (
        *("model_type", "vocab_size", "treat_whitespace_as_suffix"),
        *("unk_id", "bos_id", "eos_id", "pad_id", "unk_piece", "pad_piece"),
        *("unk_surface", "byte_fallback"),
        *("control_symbols", "user_defined_symbols"),
    ):
        theirs = getattr(expected.trainer_spec, name)
        assert getattr(found.trainer_spec, name) == theirs, name
    for name in (
        *("precompiled_charsmap", "add_dummy_prefix"),
        *("remove_extra_whitespaces", "escape_whitespaces"),
    ):
        theirs = getattr(expected.normalizer_spec, name)
        assert getattr(found.normalizer_spec, name) == theirs, name


@pytest.mark.parametrize("rule", ["google", "corrected", "off"])
def test_penalty_is_removed(comma_model, pieces_of, rule):
    tokenizer = AlbertTokenizer.from_file(comma_model, digit_comma=rule)
    content = tokenizer_json(tokenizer)
    scores = [score for _, score in json.loads(content)["model"]["vocab"]]
    assert (min(scores) < -100) == (rule != "off")
    found = read_tokenizer_json(content, "tokenizer.json")
    assert found.splits_digit_commas == (rule != "off")
    assert pieces_of(found.model_bytes) == pieces_of(tokenizer.model_bytes)


@pytest.mark.parametrize("cuts", [False, True])
def test_splits_if_user_defined_pieces_are_added_tokens(
    clean_model, pieces_of, cuts
):
    tokenizer = AlbertTokenizer.from_file(
        clean_model, cut_at_user_defined_pieces=cuts
    )
    content = tokenizer_json(tokenizer)
    added = {t["content"]: t for t in json.loads(content)["added_tokens"]}
    assert len(added) == (13 if cuts else 5)
    assert all(
        (token["special"], token["normalized"])
        == (piece not in '()"-.–£€', False)
        for piece, token in added.items()
    )
    found = read_tokenizer_json(content, "tokenizer.json")
    assert found.cut_at_user_defined_pieces == cuts
    assert pieces_of(found.model_bytes) == pieces_of(tokenizer.model_bytes)


def described(release=SAVED[1]):
    return json.loads((DATA / release / TOKENIZER_JSON).read_text("utf-8"))


def changed(path, value, release=SAVED[1]):
    """Returns the file with another value; `path` are keys and indices."""
    whole = part = described(release)
    for key in path[:-1]:
        part = part[key]
    if value is None:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return whole


def read(values):
    content = values if isinstance(values, bytes) else json.dumps(values)
    content = content if isinstance(content, bytes) else content.encode()
    return read_tokenizer_json(content, "tokenizer.json")


def test_oldest_files():
    """Without the model's type, and with the older name of the word mark."""
    old = described(SAVED[0])
    del old["model"]["type"], old["model"]["byte_fallback"]
    mark = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    split = {"type": "WhitespaceSplit"}
    old["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, mark]}
    assert read(old) == read(described(SAVED[0]))


def test_without_a_charsmap():
    values = described()
    steps = values["normalizer"]["normalizers"]
    assert steps.pop()["type"] == "Precompiled"
    with_charsmap = AlbertTokenizer(read(described()).model_bytes)
    without = AlbertTokenizer(read(values).model_bytes, strip_accents=False)
    assert with_charsmap.tokenize("oﬁ") == with_charsmap.tokenize("ofi")
    assert without.encode("oﬁ")[-1] == without.unk_id
    assert without.encode("houses") == with_charsmap.encode("houses")


def test_normalizers_determine_the_settings():
    values = described()
    kept = values["normalizer"]["normalizers"][-1:]
    values["normalizer"]["normalizers"] = kept
    found = read(values)
    assert not found.do_lower_case
    assert not found.strip_accents
    assert not found.replace_latex_quotes
    values["normalizer"] = {"type": "Lowercase"}
    assert read(values).do_lower_case
    values["normalizer"] = None
    assert read(values).do_lower_case is False


def test_what_is_dropped_as_accents(tokenizer):
    """Not the vowel signs, which have no combining class."""
    text = "\u00e9\u0301 हिन्दी ภาษาที่ தமிழ் বাংলা မြန်မာ \U0001d165"
    text = unicodedata.normalize("NFKD", text)
    found = re.sub(accents_pattern(), "", text)
    assert found == tokenizer.normalizer.fold(text)
    assert "\u093f" in found
    assert accents_pattern().startswith(FIRST_ACCENTS)
    # Earlier releases wrote StripAccents, as transformers does.
    old = json.loads(tokenizer_json(tokenizer))
    steps = old["normalizer"]["normalizers"]
    (place,) = (i for i, x in enumerate(steps) if x.get("content") == "")
    steps[place] = {"type": "StripAccents"}
    assert read(old) == read(tokenizer_json(tokenizer))
    steps[place] = {"type": "Replace", "pattern": {"Regex": "x"}, "content": ""}
    with pytest.raises(InputError, match="replacing .*'x'.* by '' is not supp"):
        read(old)


@pytest.mark.parametrize(("scheme", "marks"), [("first", 1), ("never", 0)])
def test_dummy_prefix(scheme, marks):
    values = changed(
        ["pre_tokenizer", "prepend_scheme"], scheme, release=SAVED[0]
    )
    tokenizer = AlbertTokenizer(read(values).model_bytes)
    assert "".join(tokenizer.tokenize("the")).count("▁") == marks
    assert "".join(tokenizer.tokenize("the the")).count("▁") == marks + 1


MODEL = ["model"]
STEPS = ["normalizer", "normalizers"]
WORDS = ["pre_tokenizer", "pretokenizers"]
STEPS_OF_5 = described()["normalizer"]["normalizers"]
ADDED = {"content": "<entity>", "special": True}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (b"", "Expecting value"),
        (b'{"\xff": 0}', "codec can't decode"),
        (b"[" * 100_000, "deeper than 64 levels"),
        ([], "expected a JSON object"),
        ({}, "no tokenizer in the file"),
        ({"model": []}, "is damaged"),
        ({"model": {"type": "BPE", "vocab": {}}}, "type is BPE, not Unigram"),
        ({"model": {"type": "WordPiece", "vocab": {}}}, "type is WordPiece"),
        ({"model": {"vocab": {"a": 0}}}, "type is BPE or WordPiece"),
        (changed([*MODEL, "byte_fallback"], True), "byte_fallback"),
        (changed([*MODEL, "unk_id"], None), "unk_id=None"),
        (changed([*MODEL, "unk_id"], 60), "unk_id=60 is not .* of 60"),
        (changed([*MODEL, "unk_id"], True), "unk_id=True"),
        (changed([*MODEL, "vocab", 7], ["x"]), "row 7 of the vocabulary"),
        (changed([*MODEL, "vocab", 7], "xy"), "row 7"),
        (changed([*MODEL, "vocab", 7], ["", 0.0]), "row 7"),
        (changed([*MODEL, "vocab", 7, 1], float("nan")), "row 7"),
        (changed([*MODEL, "vocab", 7, 1], float("-inf")), "row 7"),
        (changed([*MODEL, "vocab", 7, 1], 10**400), "row 7"),
        (changed([*MODEL, "vocab", 20, 0], "\ud800"), "half of a surrogate"),
        (changed([*MODEL, "vocab", 20, 0], "the"), "'the' .* twice"),
        (changed(["added_tokens", 0, "id"], 1), "'<pad>', id 1, is not in"),
        (
            changed(["added_tokens", 0], {**ADDED, "id": 60}),
            "'<entity>', id 60, is not in the vocabulary",
        ),
        (
            changed(["added_tokens", 0], {**ADDED, "id": -1}),
            "'<entity>', id -1",
        ),
        (changed(["added_tokens", 0, "content"], None), "KeyError"),
        (changed(["added_tokens", 5, "single_word"], True), "single_word"),
        (
            changed(["added_tokens", 5, "normalized"], True),
            "normalized of '\\('",
        ),
        (changed(["added_tokens", 5], None), "'\\(' is not an added token"),
        (changed(["normalizer"], {"type": "NFC"}), "the normalizer NFC is not"),
        (changed([*STEPS, 2], {"type": "NFC"}), "NFC is not supported"),
        (changed([*STEPS, 2], None), "has StripAccents; supported are both"),
        (changed([*STEPS, 0], None), "has ''; supported are both"),
        (changed([*STEPS, 0, "content"], "'"), 'replacing .* by "\'"'),
        (changed(STEPS, STEPS_OF_5[::-1]), "Lowercase follows the charsmap"),
        (changed([*STEPS, -1, "precompiled_charsmap"], "a"), "not base64"),
        (changed([*STEPS, -1, "precompiled_charsmap"], "!!!!"), "not base64"),
        (
            changed([*STEPS, -1, "precompiled_charsmap"], "AAAA"),
            "charsmap is damaged",
        ),
        (changed(["pre_tokenizer"], None), "pre-tokenizer is absent"),
        (changed(["pre_tokenizer"], {"type": "Whitespace"}), "is Whitespace"),
        (changed([*WORDS, 0], {"type": "Digits"}), "is Digits Metaspace"),
        (changed([*WORDS, 1, "replacement"], "_"), "word mark is '_'"),
        (changed([*WORDS, 1, "prepend_scheme"], "never"), "'never' with White"),
    ],
)
def test_unsupported_files(values, message):
    with pytest.raises(InputError, match=message) as error:
        read(values)
    text = str(error.value)
    assert text.startswith(
        "tokenizer.json: not a supported tokenizer of ALBERT"
    )
    assert "\n" not in text
    assert len(text) < 400


def test_special_token_that_is_an_ordinary_piece(pieces_of):
    values = described()
    i = [p for p, _ in values["model"]["vocab"]].index("the")
    token = {"id": i, "content": "the", "special": True}
    values["added_tokens"].append(token)
    with pytest.raises(InputError, match="'the' is an ordinary piece"):
        read(values)
    # Not special, it is searched for as user-defined pieces are.
    token["special"] = False
    assert (
        pieces_of(read(values).model_bytes)[i][2]
        == pieces_of(TINY.read_bytes())[5][2]
    )


def test_every_truncation_is_an_input_error():
    content = (DATA / SAVED[0] / TOKENIZER_JSON).read_bytes()
    for length in range(0, len(content) - 2, 97):
        with pytest.raises(InputError):
            read(content[:length])


def test_damaged_charsmaps_are_input_errors_or_models():
    values = described()
    step = values["normalizer"]["normalizers"][-1]
    charsmap = base64.b64decode(step["precompiled_charsmap"])
    for length in range(1, 60):
        other = copy.deepcopy(values)
        other["normalizer"]["normalizers"][-1]["precompiled_charsmap"] = (
            base64.b64encode(charsmap[:length]).decode()
        )
        with pytest.raises(InputError):
            read(other)
