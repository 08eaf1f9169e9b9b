"""Folders that hold no spiece.model, only tokenizer.json.

data/tokenizer_json holds a tiny model, and what transformers saved of it.
"""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from albert_tf.errors import InputError
from albert_tf.interop.vocabularies import folder_vocabulary
from albert_tf.text.preprocessor import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import (
    HUGGING_FACE_SLOW,
    load_tokenizer,
    tokenizer_files,
)
from albert_tf.text.tokenizer_json import TOKENIZER_JSON

DATA = pathlib.Path(__file__).parent / "data" / "tokenizer_json"
TINY = DATA / "spiece.model"
SAVED = ["transformers-4.57", "transformers-5.23"]

# The parts of the tiny vocabulary, and things it lacks.
TINY_TEXTS = [
    "In 2000, the (small) HOUSES cost £9,000...",
    "the 1999,2000,1,00,000 houses; 17,7,",
    "ﬁve\xa0houses\u3000of É ``2001,'' - well-known",
    "a [MASK] of <pad> [CLS] 7, [mask]",
    "",
    " \n ",
    "日本",
]


def pieces(model_bytes):
    model = sentencepiece_model_pb2.ModelProto.FromString(model_bytes)
    return [(p.piece, p.score, p.type) for p in model.pieces]


@pytest.mark.parametrize("release", SAVED)
def test_saved_by_transformers(release):
    tokenizer = load_tokenizer(DATA / release)
    rule = "corrected" if "-4" in release else "off"
    assert tokenizer.settings == {**HUGGING_FACE_SLOW, "digit_comma": rule}
    original = AlbertTokenizer.from_file(TINY, **tokenizer.settings)
    assert pieces(tokenizer.model_bytes) == pieces(original.model_bytes)
    ids = original.encode(TINY_TEXTS)
    assert tokenizer.encode(TINY_TEXTS) == ids
    preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
    found = preprocessor.tokenize(tf.constant(TINY_TEXTS)).to_list()
    assert found == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (
            "In 2000, the HOUSES cost 9,000",
            [14, 28, 56, 14, 19, 29, 14, 25, 30, 33, 14, 32, 50],
        ),
        (
            "1999, 2000,1,00,000 ``houses'' the",
            [57, 56, 58, 59, 50, 14, 7, 55, 7, 14, 19],
        ),
        (
            "ﬁve houses É\u3000[MASK] [CLS]",
            [14, 26, 43, 1, 15, 29, 14, 15, 4, 2],
        ),
        ("houses 日本 of 9, 7", [29, 14, 1, 22, 26, 14, 32, 14, 1]),
    ],
)
def test_vectors_of_transformers_5(text, ids):
    """Its ids of the stored folder, where nothing user-defined is to cut at."""
    assert load_tokenizer(DATA / SAVED[1]).encode(text) == ids


@pytest.mark.parametrize("release", SAVED)
def test_travels_on_as_a_model(release, tmp_path):
    tokenizer = load_tokenizer(DATA / release)
    for name, content in tokenizer_files(tokenizer).items():
        (tmp_path / name).write_bytes(content)
    again = load_tokenizer(tmp_path)
    assert again.settings == tokenizer.settings
    assert again.fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize("release", SAVED)
def test_settings_of_transformers_beside_the_model(release, tmp_path):
    """As transformers 4's fast tokenizer saves it; 5 has no such folders."""
    shutil.copytree(DATA / release, tmp_path, dirs_exist_ok=True)
    shutil.copy(TINY, tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.settings == HUGGING_FACE_SLOW
    assert tokenizer.model_bytes == TINY.read_bytes()


def test_is_found_beside_weights(tmp_path):
    shutil.copytree(DATA / SAVED[1], tmp_path, dirs_exist_ok=True)
    found = folder_vocabulary(tmp_path, "huggingface")
    assert found.tokenizer.vocab_size == 60
    # A WordPiece tokenizer has both files, and travels by vocab.txt.
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    found = folder_vocabulary(tmp_path, "huggingface")
    assert not isinstance(found.tokenizer, AlbertTokenizer)


@pytest.fixture
def folder(tmp_path):
    """Returns `folder(config)`: transformers 5's with another config."""

    def make(config):
        shutil.copy(DATA / SAVED[1] / TOKENIZER_JSON, tmp_path)
        if config is not None:
            path = tmp_path / "tokenizer_config.json"
            path.write_text(json.dumps(config))
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        (None, {}),
        ({}, {}),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, {}),
        ({"tokenizer_class": "TokenizersBackend", "do_lower_case": True}, {}),
        (
            {
                "digit_comma": "google",
                "do_lower_case": True,
                "keep_accents": False,
            },
            {
                "digit_comma": "google",
                "replace_latex_quotes": False,
                "lower_characters_first": False,
                "match_special_tokens": False,
            },
        ),
    ],
)
def test_settings(folder, config, changes):
    expected = {**HUGGING_FACE_SLOW, "digit_comma": "off", **changes}
    assert load_tokenizer(folder(config)).settings == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"do_lower_case": False}, "do_lower_case=False contradicts"),
        ({"keep_accents": True}, "keep_accents=True contradicts"),
        ({"remove_space": False}, "remove_space=false"),
        ({"unk_token": "[UNK]"}, r"unk_token='\[UNK\]' is not supported"),
        ({"tokenizer_class": "T5Tokenizer"}, "tokenizer_class=T5Tokenizer"),
        (
            {"added_tokens_decoder": {"60": {"content": "<entity>"}}},
            "added token '<entity>'",
        ),
        ([], "no JSON object"),
    ],
)
def test_settings_that_contradict(folder, config, message):
    path = folder(config)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(path)
    assert str(error.value).startswith(str(path / "tokenizer_config.json"))


@pytest.fixture
def save(clean_model, tmp_path):
    """Returns `save(**options)`: a folder of the installed transformers."""
    transformers = pytest.importorskip("transformers")
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(clean_model, source / "spiece.model")
    (source / "config.json").write_text('{"model_type": "albert"}')

    def run(**options):
        saved = tmp_path / "saved"
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source, **options
        )
        tokenizer.save_pretrained(saved)
        (saved / "spiece.model").unlink(missing_ok=True)
        return saved, transformers

    return run


@pytest.mark.peer
@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        ({"do_lower_case": False}, {"do_lower_case": False}),
        ({"keep_accents": True}, {"strip_accents": False}),
    ],
)
def test_real_folders(clean_model, sentences, save, options, changes):
    """With transformers 4 or 5, whichever is installed."""
    saved, transformers = save(**options)
    tokenizer = load_tokenizer(saved)
    is_4 = transformers.__version__.startswith("4.")
    rule = "corrected" if is_4 else "off"
    expected = {**HUGGING_FACE_SLOW, "digit_comma": rule, **changes}
    assert tokenizer.settings == expected
    original = AlbertTokenizer.from_file(clean_model, **expected)
    assert pieces(tokenizer.model_bytes) == pieces(original.model_bytes)
    texts = sentences("en", 2000)
    assert tokenizer.encode(texts) == original.encode(texts)


@pytest.mark.peer
def test_ids_of_transformers_5(sentences, save):
    """Equal but where it cuts texts at user-defined pieces.

    At the end of a sentence that only takes a blank before the piece.
    """
    saved, transformers = save()
    if transformers.__version__.startswith("4."):
        pytest.skip(f"this is transformers {transformers.__version__}")
    theirs = transformers.AutoTokenizer.from_pretrained(saved)
    texts = [text.strip() for text in sentences("en", 2000)]
    ids = load_tokenizer(saved).encode(texts)
    same = {
        text
        for text, row in zip(texts, ids, strict=True)
        if theirs.encode(text, add_special_tokens=False) == row
    }
    uncut = {
        text
        for text in texts
        if not set(text.removesuffix(".")) & set('()"-.–£€')
        and not text.endswith(" .")
    }
    assert uncut <= same
    assert len(uncut) > 1000
    assert 1150 < len(same) < 1200
