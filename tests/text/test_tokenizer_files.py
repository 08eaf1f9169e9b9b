import json

import pytest

from albert_tf.errors import InputError
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import (
    HUGGING_FACE_SLOW,
    load_tokenizer,
    tokenizer_files,
)

GOOGLE = {
    "do_lower_case": True,
    "strip_accents": True,
    "replace_latex_quotes": False,
    "lower_characters_first": False,
    "digit_comma": "google",
    "match_special_tokens": False,
    "cut_at_user_defined_pieces": False,
}


@pytest.fixture
def folder(comma_model, tmp_path):
    """Returns `folder(files)`, of a model and some JSON files."""

    def make(**files):
        (tmp_path / "spiece.model").write_bytes(comma_model.read_bytes())
        for name, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / f"{name}.json").write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    "changes",
    [
        {},
        HUGGING_FACE_SLOW,
        {"do_lower_case": False, "digit_comma": "off"},
        {"strip_accents": False, "match_special_tokens": True},
        {"replace_latex_quotes": True},
        {"cut_at_user_defined_pieces": True},
        {"lower_characters_first": True, "digit_comma": "corrected"},
    ],
)
def test_settings_travel(comma_model, tmp_path, changes):
    tokenizer = AlbertTokenizer.from_file(comma_model, **changes)
    for name, content in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(content)
    loaded = load_tokenizer(tmp_path)
    assert loaded.settings == {**GOOGLE, **changes}
    assert loaded.fingerprint == tokenizer.fingerprint
    texts = ["``ÉA2,b'' ΑΣ <PAD>[MASK] x"]
    assert loaded.encode(texts) == tokenizer.encode(texts)


def test_says_what_transformers_must_know(comma_model):
    tokenizer = AlbertTokenizer.from_file(
        comma_model, strip_accents=False, do_lower_case=False
    )
    files = tokenizer_files(tokenizer, max_length=512)
    assert files.keys() == {"spiece.model", "tokenizer_config.json"}
    assert json.loads(files["tokenizer_config.json"]) == {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": False,
        "keep_accents": True,
        "remove_space": True,
        "replace_latex_quotes": False,
        "lower_characters_first": False,
        "digit_comma": "google",
        "match_special_tokens": False,
        "cut_at_user_defined_pieces": False,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "unk_token": "<unk>",
        "sep_token": "[SEP]",
        "pad_token": "<pad>",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "model_max_length": 512,
    }


def test_settings_written_by_0_1_0(folder):
    path = folder(
        tokenizer_config={
            "tokenizer_class": "AlbertTokenizer",
            "do_lower_case": False,
            "keep_accents": False,
            "digit_comma": "google",
        }
    )
    assert load_tokenizer(path).settings == {**GOOGLE, "do_lower_case": False}


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        ({}, {}),
        ({"model_max_length": 512}, {}),
        ({"do_lower_case": False}, {"do_lower_case": False}),
        (
            {"keep_accents": True, "remove_space": True},
            {"strip_accents": False},
        ),
        (
            {
                "mask_token": {"content": "[MASK]", "lstrip": True},
                "unk_token": "<unk>",
                "added_tokens_decoder": {
                    "0": {"content": "<pad>"},
                    "4": {"content": "[MASK]"},
                },
            },
            {},
        ),
    ],
)
def test_folders_of_hugging_face(folder, written, changes):
    path = folder(tokenizer_config=written, config={"model_type": "albert"})
    assert load_tokenizer(path).settings == {**HUGGING_FACE_SLOW, **changes}


def test_old_folder_of_hugging_face(folder):
    path = folder(config={"model_type": "albert"})
    assert load_tokenizer(path).settings == HUGGING_FACE_SLOW


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"remove_space": False}, "remove_space=false .* is not supported"),
        (
            {"added_tokens_decoder": {"30000": {"content": "<entity>"}}},
            "added token '<entity>' is not supported",
        ),
        ({"mask_token": "<mask>"}, "mask_token='<mask>' is not supported"),
        ({"tokenizer_class": "BertTokenizer"}, "tokenizer_class=BertTokenizer"),
        ({"digit_comma": "google"}, "'do_lower_case'"),
        (
            {"digit_comma": 7, "do_lower_case": True, "keep_accents": False},
            "digit_comma must be .* not 7",
        ),
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


def test_missing_files(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no tokenizer_config.json"):
        load_tokenizer(tmp_path / "empty")
    path = folder(tokenizer_config={})
    (path / "spiece.model").unlink()
    with pytest.raises(InputError, match=r"spiece\.model: cannot be read"):
        load_tokenizer(path)
