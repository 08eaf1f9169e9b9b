import json

import pytest

from albert_tf.errors import InputError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import load_tokenizer, tokenizer_files
from albert_tf.text.wordpiece_files import HUGGING_FACE_SLOW_WORDPIECE
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

GOOGLE = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "rules": "google",
    "match_special_tokens": False,
}


@pytest.fixture
def folder(wordpiece_golden, tmp_path):
    """Returns `folder(files)`, of a vocabulary and some JSON files."""

    def make(**files):
        content = (wordpiece_golden / "vocab.txt").read_bytes()
        (tmp_path / "vocab.txt").write_bytes(content)
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / f"{name}.json").write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    "changes",
    [
        {},
        HUGGING_FACE_SLOW_WORDPIECE,
        {"do_lower_case": False, "match_special_tokens": True},
        {"strip_accents": False, "rules": "hugging_face"},
        {"strip_accents": True, "tokenize_chinese_chars": False},
    ],
)
def test_settings_travel(wordpiece_golden, tmp_path, changes):
    path = wordpiece_golden / "vocab.txt"
    tokenizer = AlbertTokenizer.from_file(path, **changes)
    for name, content in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(content)
    loaded = load_tokenizer(tmp_path)
    assert isinstance(loaded, WordPieceTokenizer)
    assert loaded.settings == {**GOOGLE, **changes}
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode("É 中 ΑΣ[MASK]") == tokenizer.encode("É 中 ΑΣ[MASK]")


def test_says_what_transformers_must_know(wordpiece_golden):
    tokenizer = WordPieceTokenizer.from_file(
        wordpiece_golden / "vocab.txt", do_lower_case=False
    )
    files = tokenizer_files(tokenizer, max_length=512)
    assert files.keys() == {"vocab.txt", "tokenizer_config.json"}
    assert json.loads(files["tokenizer_config.json"]) == {
        "tokenizer_class": "BertTokenizer",
        "do_basic_tokenize": True,
        "do_lower_case": False,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "word_rules": "google",
        "match_special_tokens": False,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "model_max_length": 512,
    }


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        ({}, {}),
        ({"tokenizer_class": "BertTokenizerFast"}, {}),
        ({"tokenizer_class": "AlbertTokenizer"}, {}),
        (
            {"do_lower_case": False, "strip_accents": None},
            {"do_lower_case": False},
        ),
        (
            {"strip_accents": False, "tokenize_chinese_chars": False},
            {"strip_accents": False, "tokenize_chinese_chars": False},
        ),
        (
            {
                "mask_token": {"content": "[MASK]", "lstrip": False},
                "never_split": None,
                "do_basic_tokenize": True,
                "added_tokens_decoder": {"0": {"content": "[PAD]"}},
            },
            {},
        ),
    ],
)
def test_folders_of_hugging_face(folder, written, changes):
    path = folder(tokenizer_config=written, config={"model_type": "albert"})
    loaded = load_tokenizer(path)
    assert loaded.settings == {**HUGGING_FACE_SLOW_WORDPIECE, **changes}


def test_a_vocabulary_and_nothing_of_its_settings(folder):
    path = folder(config={"model_type": "albert"}, tokenizer="{}")
    assert load_tokenizer(path).settings == HUGGING_FACE_SLOW_WORDPIECE


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "BertJapanese.* is not"),
        ({"do_basic_tokenize": False}, "do_basic_tokenize=false"),
        ({"never_split": ["x"]}, "never_split="),
        ({"unk_token": "<unk>"}, "unk_token='<unk>' is not supported"),
        (
            {"added_tokens_decoder": {"30000": {"content": "<entity>"}}},
            "added token '<entity>' is not supported",
        ),
        ({"word_rules": "mine"}, "word_rules must be .* not mine"),
        ([], "no JSON object"),
        ("{", "property name"),
    ],
)
def test_settings_that_cannot_be_used(folder, written, message):
    path = folder(tokenizer_config=written)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_vocabulary(folder):
    path = folder(tokenizer_config={})
    (path / "vocab.txt").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"vocab\.txt: .* no line \[CLS\]"):
        load_tokenizer(path)
