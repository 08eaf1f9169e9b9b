"""Folders that hold no spiece.model, only tokenizer.json.

data/tokenizer_json holds a tiny model, and what transformers saved of it.
"""

import itertools
import json
import pathlib
import re
import shutil
import unicodedata

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint import folder_vocabulary
from albert_tf.text.preprocessor_layer import AlbertPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW
from albert_tf.text.tokenizer_files import huggingface_files, load_tokenizer
from albert_tf.text.tokenizer_json import TOKENIZER_JSON

DATA = pathlib.Path(__file__).parent / "data" / "tokenizer_json"
TINY = DATA / "spiece.model"
SAVED = ["transformers-4.57", "transformers-5.23"]
CUTTING = {**HUGGING_FACE_SLOW, "cut_at_user_defined_pieces": True}

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


@pytest.mark.parametrize("release", SAVED)
def test_saved_by_transformers(release, pieces_of):
    tokenizer = load_tokenizer(DATA / release)
    rule = "corrected" if "-4" in release else "off"
    assert tokenizer.settings == {**CUTTING, "digit_comma": rule}
    original = AlbertTokenizer.from_file(TINY, **tokenizer.settings)
    assert pieces_of(tokenizer.model_bytes) == pieces_of(original.model_bytes)
    ids = original.encode(TINY_TEXTS)
    assert tokenizer.encode(TINY_TEXTS) == ids
    preprocessor = AlbertPreprocessor.from_tokenizer(tokenizer)
    found = preprocessor.tokenize(tf.constant(TINY_TEXTS)).to_list()
    assert found == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (
            "well-known - the 1999,2000,1,00,000 houses; 17,7,",
            [38, 16, 16, 8, 14, 36, 23, 21, 44, 23, 8, 14, 19]
            + [57, 42, 27, 59, 58, 59, 50, 29, 1, 31, 13, 13],
        ),
        (
            "ﬁve\xa0houses\u3000of É ``2001,'' (- ... ) the",
            [14, 26, 43, 1, 15, 29, 22, 26, 14, 15]
            + [14, 7, 52, 58, 7, 5, 8, 12, 9, 6, 14, 19],
        ),
        (
            "a [MASK] of( the)\u3000.the 7, 9,7,9 the",
            [14, 24, 4, 22, 26, 5, 14, 19, 6, 9, 14, 19]
            + [13, 14, 32, 13, 14, 51, 14, 19],
        ),
    ],
)
def test_vectors_of_transformers_5(text, ids):
    """Its ids of the stored folder."""
    assert load_tokenizer(DATA / SAVED[1]).encode(text) == ids


@pytest.mark.parametrize("release", SAVED)
def test_saved_again_as_a_model(release, tmp_path, save):
    tokenizer = load_tokenizer(DATA / release)
    again = load_tokenizer(save(tokenizer, tmp_path))
    assert again.settings == tokenizer.settings
    assert again.fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize("release", SAVED)
def test_saved_over_a_tokenizer_json(release, tmp_path, comma_model):
    """Only the tokenizer that was loaded from it may replace it."""
    folder = shutil.copytree(DATA / release, tmp_path / "folder")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match=r"tokenizer\.json is another vocab"):
        AlbertTokenizer.from_file(comma_model).save_pretrained(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    tokenizer = load_tokenizer(folder)
    tokenizer.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert load_tokenizer(folder).encode(TINY_TEXTS) == (
        tokenizer.encode(TINY_TEXTS)
    )


@pytest.mark.parametrize("release", SAVED)
def test_settings_of_transformers_with_a_model(release, tmp_path):
    """As transformers 4's fast tokenizer saves it; 5 has no such folders."""
    shutil.copytree(DATA / release, tmp_path, dirs_exist_ok=True)
    shutil.copy(TINY, tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    # Only 4 writes added tokens into that file.
    expected = CUTTING if "-4" in release else HUGGING_FACE_SLOW
    assert tokenizer.settings == expected
    assert tokenizer.model_bytes == TINY.read_bytes()


def test_found_next_to_weights(tmp_path):
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
    "config",
    [
        None,
        {},
        {"tokenizer_class": "PreTrainedTokenizerFast"},
        {"tokenizer_class": "TokenizersBackend", "do_lower_case": True},
    ],
)
def test_settings(folder, config):
    expected = {**CUTTING, "digit_comma": "off"}
    assert load_tokenizer(folder(config)).settings == expected


USER_DEFINED = {
    str(i): {"content": piece, "special": False}
    for i, piece in enumerate('( ) " - . £ € .. 7,'.split(), 5)
}


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
        (
            {"added_tokens_decoder": {"5": {"content": "("}}},
            "'\"' is not an added token",
        ),
        (
            {"added_tokens_decoder": USER_DEFINED | {"19": "the"}},
            "'the' is an added token",
        ),
        ([], "expected a JSON object"),
    ],
)
def test_contradictory_settings(folder, config, message):
    path = folder(config)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(path)
    assert str(error.value).startswith(str(path / "tokenizer_config.json"))


@pytest.fixture
def save_theirs(clean_model, tmp_path):
    """Returns `save_theirs(**options)`: a folder of transformers."""
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
def test_real_folders(
    clean_model, sentences, save_theirs, pieces_of, options, changes
):
    """With transformers 4 or 5, whichever is installed."""
    saved, transformers = save_theirs(**options)
    tokenizer = load_tokenizer(saved)
    is_4 = transformers.__version__.startswith("4.")
    rule = "corrected" if is_4 else "off"
    expected = {**CUTTING, "digit_comma": rule, **changes}
    assert tokenizer.settings == expected
    original = AlbertTokenizer.from_file(clean_model, **expected)
    assert pieces_of(tokenizer.model_bytes) == pieces_of(original.model_bytes)
    texts = sentences("en", 2000)
    assert tokenizer.encode(texts) == original.encode(texts)


def ids_of(tokenizer, texts):
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


@pytest.fixture
def texts(sentences, vectors, special_texts, odd_texts):
    hostile = [*special_texts, *odd_texts]
    return {
        "real": sentences("en", 2000),
        "vectors": vectors,
        "hostile": [t.encode(errors="replace").decode() for t in hostile],
    }


# Vertical tab, U+001C to U+001F, and what is a special token here.
UNLIKE = re.compile("[\x0b\x1c-\x1f]|<pad>|<unk>", re.IGNORECASE)


@pytest.mark.peer
@pytest.mark.parametrize(
    ("options", "others", "most_hostile"),
    [
        ({}, [], 5),
        ({"do_lower_case": False}, [], 5),
        ({"keep_accents": True}, ["e\u0301\u0301\u0301"], 150),
    ],
)
def test_ids_of_transformers_5(
    save_theirs, texts, options, others, most_hostile
):
    saved, transformers = save_theirs(**options)
    if transformers.__version__.startswith("4."):
        pytest.skip(f"this is transformers {transformers.__version__}")
    theirs = transformers.AutoTokenizer.from_pretrained(saved)
    ours = load_tokenizer(saved)

    def different(texts):
        ids = zip(texts, ids_of(theirs, texts), ours.encode(texts), strict=True)
        return [text for text, row, expected in ids if row != expected]

    assert different(texts["real"]) == []
    assert different(texts["vectors"]) == [
        "vertical\x0btab\x0cform feed",
        *others,
    ]
    alike = [
        text
        for text in texts["hostile"]
        if not UNLIKE.search(unicodedata.normalize("NFKD", text))
    ]
    assert len(alike) > 9800
    assert len(different(alike)) <= most_hostile


@pytest.fixture
def saved_by_us(tmp_path):
    """Returns `saved_by_us(tokenizer)`, a folder without the model itself."""

    def write(tokenizer):
        folder = tmp_path / "ours"
        folder.mkdir()
        files = huggingface_files(tokenizer, max_length=512)
        del files["spiece.model"]
        files["config.json"] = b'{"model_type": "albert"}'
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder

    return write


@pytest.mark.parametrize("release", SAVED)
def test_added_tokens_are_written_as_they_were(release, saved_by_us, pieces_of):
    tokenizer = load_tokenizer(DATA / release)

    def added(folder):
        content = (folder / TOKENIZER_JSON).read_text("utf-8")
        return json.loads(content)["added_tokens"]

    folder = saved_by_us(tokenizer)
    expected = added(DATA / release)
    # transformers 5 forgets that the blank before [MASK] belongs to it.
    expected[tokenizer.mask_id]["lstrip"] = True
    assert added(folder) == expected
    again = load_tokenizer(folder)
    assert again.settings == tokenizer.settings
    assert pieces_of(again.model_bytes) == pieces_of(tokenizer.model_bytes)


@pytest.mark.peer
@pytest.mark.parametrize("source", [*SAVED, "Google's model"])
def test_back_to_transformers_5(
    save_theirs, saved_by_us, texts, source, tmp_path
):
    """All its ids are as they were, with a folder saved by us in between."""
    saved, transformers = save_theirs()
    if transformers.__version__.startswith("4."):
        pytest.skip(f"this is transformers {transformers.__version__}")
    if source in SAVED:
        saved = shutil.copytree(DATA / source, tmp_path / source)
        (saved / "config.json").write_text('{"model_type": "albert"}')
    opened = transformers.AutoTokenizer.from_pretrained
    texts = [*TINY_TEXTS, *itertools.chain(*texts.values())]
    expected = ids_of(opened(saved), texts)
    tokenizer = load_tokenizer(saved)
    ours = opened(saved_by_us(tokenizer))
    assert ids_of(ours, texts) == expected
    # Nor does it forget our settings.
    ours.save_pretrained(tmp_path / "theirs")
    assert load_tokenizer(tmp_path / "theirs").settings == tokenizer.settings
