import json

import pytest

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Vocabulary, folder_vocabulary
from albert_tf.interop.convert import WRITERS
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

PIECES = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "中", "a"]
CONTENT = "\n".join(PIECES).encode()


def settings_of(folder, system, **options):
    return folder_vocabulary(folder, system, **options).tokenizer.settings


def test_tokenizer_rules_depend_on_the_system(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(CONTENT)
    (tmp_path / "config.json").write_text("{}")
    assert settings_of(tmp_path, "huggingface")["rules"] == "hugging_face"
    assert settings_of(tmp_path, "google")["rules"] == "google"
    assert settings_of(tmp_path, "google")["do_lower_case"]
    cased = settings_of(tmp_path, "google", do_lower_case=False)
    assert not cased["do_lower_case"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not settings_of(tmp_path, "huggingface")["do_lower_case"]
    assert "8 pieces" in folder_vocabulary(tmp_path, "google").describe()


@pytest.mark.parametrize("system", ["huggingface", "google"])
def test_vocabularies_of_other_names(tmp_path, system):
    (tmp_path / "vocab_chinese.txt").write_bytes(CONTENT)
    assert settings_of(tmp_path, system)["rules"] == "google"
    (tmp_path / "vocab_other.txt").write_bytes(CONTENT)
    found = folder_vocabulary(tmp_path, system)
    assert found.tokenizer is None
    assert "several vocabularies: vocab_chinese.txt, vocab" in found.problem


def test_an_unusable_vocabulary_is_explained(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n[UNK]\n")
    found = folder_vocabulary(tmp_path, "google")
    assert found.tokenizer is None
    assert "no line [CLS] [MASK] [SEP]" in found.describe()
    assert folder_vocabulary(tmp_path / "absent", "google") == Vocabulary()


def test_special_ids_are_written_to_the_config(
    config, make_checkpoint, tmp_path
):
    tokenizer = WordPieceTokenizer(CONTENT, strip_accents=False)
    checkpoint = make_checkpoint(config, vocabulary=Vocabulary(tokenizer))
    WRITERS["huggingface"][0](checkpoint, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    ids = [values[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert ids == [0, 3, 4]
    assert not (tmp_path / "tokenizer.json").exists()
    opened = open_checkpoint(tmp_path).tokenizer
    assert opened.settings == tokenizer.settings


def test_keras_hub_has_no_wordpiece(config, make_checkpoint, tmp_path):
    vocabulary = Vocabulary(WordPieceTokenizer(CONTENT))
    checkpoint = make_checkpoint(config, vocabulary=vocabulary)
    with pytest.raises(InputError, match="WordPiece.*--drop=tokenizer"):
        WRITERS["keras_hub"][0](checkpoint, tmp_path)
