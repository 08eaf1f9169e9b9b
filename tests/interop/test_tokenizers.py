import shutil

import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import load_tokenizer
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import tokenizer_files


@pytest.mark.parametrize(
    ("name", "digit_comma"),
    [
        ("google_tf1.tar.gz", "google"),
        ("huggingface", "corrected"),
        ("keras_hub_classifier", "off"),
        ("albert_tf_run", "corrected"),
        ("spiece.model", "google"),
    ],
)
def test_loads_tokenizers_of_checkpoints_and_files(stored, name, digit_comma):
    tokenizer = load_tokenizer(stored / name)
    assert tokenizer.vocab_size == 40
    assert tokenizer.settings["digit_comma"] == digit_comma


def test_a_folder_of_tokenizer_files(stored, tmp_path):
    tokenizer = AlbertTokenizer.from_file(
        stored / "spiece.model", do_lower_case=False
    )
    for name, content in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(content)
    assert albert_tf.load_tokenizer(tmp_path).settings == tokenizer.settings


def test_no_tokenizer(stored, tmp_path):
    folder = shutil.copytree(stored / "model_garden", tmp_path / "tiny")
    with pytest.raises(InputError, match="has no usable tokenizer"):
        load_tokenizer(folder)
    folder = shutil.copytree(stored / "huggingface", tmp_path / "damaged")
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    (folder / "spiece.model").write_text("<html>")
    with pytest.raises(InputError, match="spiece.model"):
        load_tokenizer(folder)


def test_class_method_and_function_are_equivalent(stored):
    for name in ("spiece.model", "huggingface", "google_tf1"):
        loaded = AlbertTokenizer.from_pretrained(stored / name)
        expected = load_tokenizer(stored / name)
        assert loaded.settings == expected.settings
        assert loaded.model_bytes == expected.model_bytes


@pytest.mark.parametrize(
    "name", ["google_tf1", "spiece.model", "huggingface", "albert_tf_run"]
)
def test_settings_replace_those_of_the_checkpoint(stored, name):
    """`[MASK]` in a text, which is no special token in Google's checkpoints."""
    for match in (True, False):
        tokenizer = AlbertTokenizer.from_pretrained(
            stored / name, match_special_tokens=match
        )
        assert (tokenizer.mask_id in tokenizer.encode("[MASK]")) == match
    with pytest.raises(InputError, match="rules=1 is not a setting of an? "):
        load_tokenizer(stored / "google_tf1", rules=1)
