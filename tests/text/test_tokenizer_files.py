import io
import json
from typing import NamedTuple

import pytest
import sentencepiece

from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import (
    HUGGING_FACE_SLOW,
    HUGGING_FACE_SLOW_WORDPIECE,
)
from albert_tf.text.tokenizer_files import load_tokenizer, tokenizer_files
from albert_tf.text.tokenizer_json import tokenizer_json
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

GOOGLE_SENTENCEPIECE = {
    "do_lower_case": True,
    "strip_accents": True,
    "replace_latex_quotes": False,
    "lower_characters_first": False,
    "digit_comma": "google",
    "match_special_tokens": False,
    "cut_at_user_defined_pieces": False,
}

GOOGLE_WORDPIECE = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "rules": "google",
    "match_special_tokens": False,
}


class Format(NamedTuple):
    """A tokenizer class with its default and Hugging Face's settings."""

    tokenizer_class: type
    defaults: dict
    hugging_face: dict


FORMATS = {
    "spiece.model": Format(
        AlbertTokenizer, GOOGLE_SENTENCEPIECE, HUGGING_FACE_SLOW
    ),
    "vocab.txt": Format(
        AlbertWordPieceTokenizer, GOOGLE_WORDPIECE, HUGGING_FACE_SLOW_WORDPIECE
    ),
}


def cases(sentencepiece, wordpiece):
    """Returns cases of both formats, each with the name of its model file."""
    return [
        (name, *(case if isinstance(case, tuple) else (case,)))
        for name, table in (
            ("spiece.model", sentencepiece),
            ("vocab.txt", wordpiece),
        )
        for case in table
    ]


@pytest.fixture
def model_path(comma_model, wordpiece_golden):
    """Returns the path of a model by the name of its file in folders."""
    vocab = wordpiece_golden / "vocab.txt"
    return {"spiece.model": comma_model, "vocab.txt": vocab}.__getitem__


@pytest.fixture
def folder(model_path, tmp_path):
    """Returns `folder(name, **files)`, of a model and some JSON files."""

    def make(name, **files):
        (tmp_path / name).write_bytes(model_path(name).read_bytes())
        for stem, content in files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / f"{stem}.json").write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("name", "changes"),
    cases(
        [
            {},
            HUGGING_FACE_SLOW,
            {"do_lower_case": False, "digit_comma": "off"},
            {"strip_accents": False, "match_special_tokens": True},
            {"replace_latex_quotes": True},
            {"cut_at_user_defined_pieces": True},
            {"lower_characters_first": True, "digit_comma": "corrected"},
        ],
        [
            {},
            HUGGING_FACE_SLOW_WORDPIECE,
            {"do_lower_case": False, "match_special_tokens": True},
            {"strip_accents": False, "rules": "hugging_face"},
            {"strip_accents": True, "tokenize_chinese_chars": False},
        ],
    ),
)
def test_settings_are_saved_and_loaded(
    model_path, tmp_path, save, name, changes
):
    tokenizer = AlbertTokenizer.from_file(model_path(name), **changes)
    loaded = load_tokenizer(save(tokenizer, tmp_path))
    assert isinstance(loaded, FORMATS[name].tokenizer_class)
    assert loaded.settings == {**FORMATS[name].defaults, **changes}
    assert loaded.fingerprint == tokenizer.fingerprint
    texts = ["``ÉA2,b'' ΑΣ <PAD>[MASK] x", "É 中 ΑΣ[MASK]"]
    assert loaded.encode(texts) == tokenizer.encode(texts)


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (
            "spiece.model",
            {"strip_accents": False},
            {
                "tokenizer_class": "AlbertTokenizer",
                "keep_accents": True,
                "remove_space": True,
                "replace_latex_quotes": False,
                "lower_characters_first": False,
                "digit_comma": "google",
                "cut_at_user_defined_pieces": False,
                "bos_token": "[CLS]",
                "eos_token": "[SEP]",
                "unk_token": "<unk>",
                "pad_token": "<pad>",
            },
        ),
        (
            "vocab.txt",
            {},
            {
                "tokenizer_class": "BertTokenizer",
                "do_basic_tokenize": True,
                "strip_accents": None,
                "tokenize_chinese_chars": True,
                "word_rules": "google",
                "unk_token": "[UNK]",
                "pad_token": "[PAD]",
            },
        ),
    ],
)
def test_config_has_the_keys_of_transformers(
    model_path, name, changes, expected
):
    tokenizer = AlbertTokenizer.from_file(
        model_path(name), do_lower_case=False, **changes
    )
    files = tokenizer_files(tokenizer, max_length=512)
    assert files.keys() == {name, "tokenizer_config.json"}
    assert json.loads(files["tokenizer_config.json"]) == {
        "do_lower_case": False,
        "match_special_tokens": False,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "sep_token": "[SEP]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
        "model_max_length": 512,
        "vocabulary_sha256": tokenizer.fingerprint,
        **expected,
    }


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("spiece.model", b"x1", b"x7"), ("vocab.txt", b"the", b"thx")],
)
def test_changed_vocabulary_is_detected(
    tmp_path, model_path, save, name, before, after
):
    save(AlbertTokenizer.from_file(model_path(name)), tmp_path)
    load_tokenizer(tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content.replace(before, after, 1))
    with pytest.raises(InputError, match=f"{name} is not the vocabulary that"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("name", "written", "changes"),
    cases(
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
    ),
)
def test_folders_of_hugging_face(folder, name, written, changes):
    config = {"model_type": "albert"}
    path = folder(name, tokenizer_config=written, config=config)
    expected = {**FORMATS[name].hugging_face, **changes}
    assert load_tokenizer(path).settings == expected


@pytest.mark.parametrize(
    ("written", "expected"), [(64, 64), (10**30, 512), (None, 512)]
)
def test_length_of_the_model(folder, written, expected):
    path = folder(
        "spiece.model", tokenizer_config={"model_max_length": written}
    )
    assert load_tokenizer(path).model_max_length == expected


@pytest.mark.parametrize("files", [{}, {"tokenizer": "{}"}, {"tokenizer": "["}])
@pytest.mark.parametrize("name", FORMATS)
def test_model_without_config(folder, name, files, caplog):
    path = folder(name, config={"model_type": "albert"}, **files)
    assert load_tokenizer(path).settings == FORMATS[name].hugging_face
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "nothing else says whether text is lower-cased: it is" in warning


CASED = {
    "spiece.model": {"do_lower_case": False, "strip_accents": False},
    "vocab.txt": {
        "do_lower_case": False,
        "strip_accents": True,
        "tokenize_chinese_chars": False,
    },
}
BERT_NORMALIZER = {
    "type": "BertNormalizer",
    "lowercase": False,
    "strip_accents": True,
    "handle_chinese_chars": False,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("written", [None, {"model_max_length": 64}])
def test_settings_of_a_tokenizer_json(folder, name, written, caplog):
    """The settings that transformers' fast tokenizer has."""
    config = {"model_type": "albert"}
    path = folder(name, config=config)
    if name == "vocab.txt":
        content = json.dumps({"normalizer": BERT_NORMALIZER})
    else:
        tokenizer = AlbertTokenizer.from_file(path / name, **CASED[name])
        content = tokenizer_json(tokenizer).decode()
    files = {"tokenizer_config": written} if written else {}
    folder(name, config=config, tokenizer=content, **files)
    expected = {**FORMATS[name].hugging_face, **CASED[name]}
    assert load_tokenizer(path).settings == expected
    # What tokenizer_config.json says takes precedence.
    folder(name, tokenizer_config={"do_lower_case": True})
    expected["do_lower_case"] = True
    assert load_tokenizer(path).settings == expected
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("added_tokens", {"<entity>": 30000}),
        (
            "tokenizer",
            {"added_tokens": [{"id": 30000, "content": "<entity>"}]},
        ),
    ],
)
@pytest.mark.parametrize("model", FORMATS)
def test_added_tokens_of_other_files(folder, model, name, content):
    """transformers would not split them, so ids would differ."""
    path = folder(model, tokenizer_config={}, **{name: content})
    with pytest.raises(InputError, match="'<entity>' is not in the vocab") as e:
        load_tokenizer(path)
    assert f"{name}.json" in str(e.value)
    known = load_tokenizer(folder(model, tokenizer_config={}, **{name: {}}))
    token = known.id_to_piece(known.cls_id)
    listed = {"id": known.cls_id, "content": token}
    content = {"added_tokens": [listed]}
    if name == "added_tokens":
        content = {token: known.cls_id}
    load_tokenizer(folder(model, tokenizer_config={}, **{name: content}))


def test_settings_of_other_files(folder, caplog):
    config = {"model_type": "albert", "do_lower_case": False}
    path = folder("spiece.model", config={**config, "keep_accents": True})
    expected = {**HUGGING_FACE_SLOW, **CASED["spiece.model"]}
    assert load_tokenizer(path).settings == expected
    folder("spiece.model", special_tokens_map={"mask_token": "<mask>"})
    with pytest.raises(InputError, match="mask_token='<mask>' is not support"):
        load_tokenizer(path)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "written", "message"),
    cases(
        [
            ({"remove_space": False}, "remove_space=false .* is not supported"),
            (
                {"added_tokens_decoder": {"30000": {"content": "<entity>"}}},
                "'<entity>' is not in the vocabulary",
            ),
            ({"mask_token": "<mask>"}, "mask_token='<mask>' is not supported"),
            (
                {"tokenizer_class": "BertTokenizer"},
                "tokenizer_class=BertTokenizer",
            ),
            ({"digit_comma": "google"}, "do_lower_case is missing"),
            ({"model_max_length": 1}, "model_max_length=1 must be at least 2"),
            ({"model_max_length": "512"}, "model_max_length='512' must be"),
            (
                {
                    "digit_comma": 7,
                    "do_lower_case": True,
                    "keep_accents": False,
                },
                "digit_comma=7 must be one of google",
            ),
            ([], "expected a JSON object"),
            ("{", "property name"),
        ],
        [
            (
                {"tokenizer_class": "BertJapaneseTokenizer"},
                "BertJapanese.* is not",
            ),
            ({"do_basic_tokenize": False}, "do_basic_tokenize=false"),
            ({"never_split": ["x"]}, "never_split="),
            ({"unk_token": "<unk>"}, "unk_token='<unk>' is not supported"),
            (
                {"added_tokens_decoder": {"30000": {"content": "<entity>"}}},
                "'<entity>' is not in the vocabulary",
            ),
            ({"word_rules": "mine"}, "word_rules='mine' must be one of"),
            ([], "expected a JSON object"),
            ("{", "property name"),
        ],
    ),
)
def test_invalid_settings(folder, name, written, message):
    path = folder(name, tokenizer_config=written)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"byte_fallback": True, "vocab_size": 400},
        {"model_type": "bpe", "user_defined_symbols": ["<br>"]},
    ],
)
def test_what_the_library_cannot_compute_is_not_written(
    sentences, tmp_path, settings
):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences("en", 300)),
        model_writer=model,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
        **{"vocab_size": 120, **settings},
    )
    tokenizer = AlbertTokenizer(model.getvalue())
    tokenizer.save_pretrained(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert "spiece.model" in names
    assert "tokenizer.json" not in names
    again = load_tokenizer(tmp_path)
    assert again.encode("a <br> \u4e16") == tokenizer.encode("a <br> \u4e16")


def test_remote_folders_are_refused(tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="gs://bucket/model: not a local fold"):
        tokenizer.save_pretrained("gs://bucket/model")
    assert not list(tmp_path.iterdir())


def test_missing_files(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no tokenizer_config.json"):
        load_tokenizer(tmp_path / "empty")
    path = folder("spiece.model", tokenizer_config={})
    (path / "spiece.model").unlink()
    with pytest.raises(InputError, match=r"spiece\.model: cannot be read"):
        load_tokenizer(path)


def test_file_that_is_not_a_vocabulary(folder):
    path = folder("vocab.txt", tokenizer_config={})
    (path / "vocab.txt").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"vocab\.txt: .* no line \[CLS\]"):
        load_tokenizer(path)
