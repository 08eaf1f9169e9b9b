import json
import shutil

import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import Vocabulary, folder_vocabulary
from albert_tf.interop.convert import WRITERS
from albert_tf.interop.open_checkpoint import load_tokenizer, open_checkpoint
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

PIECES = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "中", "a"]
CONTENT = "\n".join(PIECES).encode()


def test_a_folder_of_tokenizer_files(stored, tmp_path, caplog):
    tokenizer = AlbertTokenizer.from_file(
        stored / "spiece.model", do_lower_case=False
    )
    for name, content in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(content)
    assert albert_tf.load_tokenizer(tmp_path).settings == tokenizer.settings
    (tmp_path / "tokenizer_config.json").unlink()
    found = albert_tf.load_tokenizer(tmp_path, match_special_tokens=True)
    assert found.settings["match_special_tokens"]
    assert found.model_bytes == tokenizer.model_bytes
    with caplog.at_level("WARNING"):
        (tmp_path / "config.json").write_text(
            '{"do_lower_case": false, "keep_accents": true}'
        )
        found = albert_tf.load_tokenizer(tmp_path).settings
    assert not found["do_lower_case"]
    assert not found["strip_accents"]
    assert not caplog.text
    # With weights, an error is that of the checkpoint.
    (tmp_path / "model.safetensors").write_text("damaged")
    with pytest.raises(InputError, match=r"config\.json: unknown key"):
        albert_tf.load_tokenizer(tmp_path)


def test_a_folder_with_a_tokenizer_json_only(stored, tmp_path):
    tokenizer = AlbertTokenizer.from_file(
        stored / "spiece.model", do_lower_case=False
    )
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    for _ in range(2):
        found = albert_tf.load_tokenizer(tmp_path)
        assert not found.settings["do_lower_case"]
        assert found.encode("A Film") == tokenizer.encode("A Film")
        (tmp_path / "spiece.model").unlink(missing_ok=True)


def test_no_tokenizer(stored, tmp_path):
    folder = shutil.copytree(stored / "model_garden", tmp_path / "tiny")
    with pytest.raises(InputError, match="has no usable tokenizer"):
        load_tokenizer(folder)
    folder = shutil.copytree(stored / "huggingface", tmp_path / "damaged")
    (folder / "tokenizer_config.json").unlink(missing_ok=True)
    (folder / "spiece.model").write_text("<html>")
    with pytest.raises(InputError, match="spiece.model"):
        load_tokenizer(folder)


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
    with pytest.raises(InputError, match="rules=1 is not a setting of "):
        load_tokenizer(stored / "google_tf1", rules=1)


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
    tokenizer = AlbertWordPieceTokenizer(CONTENT, strip_accents=False)
    checkpoint = make_checkpoint(config, vocabulary=Vocabulary(tokenizer))
    WRITERS["huggingface"][0](checkpoint, tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    ids = [values[f"{name}_token_id"] for name in ("pad", "bos", "eos")]
    assert ids == [0, 3, 4]
    assert not (tmp_path / "tokenizer.json").exists()
    opened = open_checkpoint(tmp_path).tokenizer
    assert opened.settings == tokenizer.settings


def test_keras_hub_has_no_wordpiece(config, make_checkpoint, tmp_path):
    vocabulary = Vocabulary(AlbertWordPieceTokenizer(CONTENT))
    checkpoint = make_checkpoint(config, vocabulary=vocabulary)
    with pytest.raises(InputError, match="WordPiece.*--drop=tokenizer"):
        WRITERS["keras_hub"][0](checkpoint, tmp_path)
