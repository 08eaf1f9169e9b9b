"""What transformers makes of our folders: how many ids are ours.

The vectors are those of golden/google and data/oracles, 302 texts.
"""

import re

import pytest

from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_config import HUGGING_FACE_SLOW
from albert_tf.text.tokenizer_files import tokenizer_files
from albert_tf.text.tokenizer_json import TOKENIZER_JSON, tokenizer_json
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

pytestmark = pytest.mark.peer

transformers = pytest.importorskip("transformers")
if transformers.__version__.startswith("4."):
    pytest.skip(
        f"transformers {transformers.__version__}: its slow tokenizer is "
        "tested in test_huggingface_slow.py",
        allow_module_level=True,
    )


@pytest.fixture(scope="module")
def tokenizer(clean_model):
    return AlbertTokenizer.from_file(clean_model, **HUGGING_FACE_SLOW)


@pytest.fixture(scope="module")
def cutting(clean_model):
    return AlbertTokenizer.from_file(
        clean_model, **{**HUGGING_FACE_SLOW, "cut_at_user_defined_pieces": True}
    )


def opened(tokenizer, folder, **files):
    """Opens a folder of ours as people do."""
    written = tokenizer_files(tokenizer, max_length=512)
    written["config.json"] = b'{"model_type": "albert"}'
    for name, content in (written | files).items():
        (folder / name).write_bytes(content)
    return transformers.AutoTokenizer.from_pretrained(folder)


def equal(theirs, ours, texts):
    """Returns the texts for which both give the same ids."""
    found = [theirs.encode(text, add_special_tokens=False) for text in texts]
    expected = ours.encode(texts)
    return [
        text
        for text, ids, others in zip(texts, found, expected, strict=True)
        if ids == others
    ]


def test_ids_from_the_model_alone(tokenizer, vectors, tmp_path):
    theirs = opened(tokenizer, tmp_path)
    assert len(equal(theirs, tokenizer, vectors)) == 217
    assert len(vectors) == 302


@pytest.mark.parametrize("name", ["tokenizer", "cutting"])
def test_ids_with_tokenizer_json(name, request, vectors, tmp_path):
    tokenizer = request.getfixturevalue(name)
    files = {TOKENIZER_JSON: tokenizer_json(tokenizer)}
    theirs = opened(tokenizer, tmp_path, **files)
    same = equal(theirs, tokenizer, vectors)
    assert len(same) == 301
    # Its whitespace differs from Python's in the vertical tab.
    assert set(vectors) - set(same) == {"vertical\x0btab\x0cform feed"}


@pytest.mark.parametrize("name", ["tokenizer", "cutting"])
def test_ids_of_the_library_itself(name, request, vectors, tmp_path):
    """Without transformers, which puts its own normalizer before the model."""
    tokenizer = request.getfixturevalue(name)
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / TOKENIZER_JSON
    path.write_bytes(tokenizer_json(tokenizer))
    library = tokenizers.Tokenizer.from_file(str(path))
    texts = [*vectors, "हिन्दी में", "ภาษาที่", "தமிழ் மொழி", "বাংলা", "မြန်မာ"]
    found = [library.encode(t, add_special_tokens=False).ids for t in texts]
    assert found == tokenizer.encode(texts)


def test_ids_of_a_byte_pair_vocabulary(sentences, tmp_path):
    texts = sentences("en", 3000)
    path = train_vocabulary(
        texts[:2000],
        tmp_path / "bpe",
        VocabularyConfig(model_type="bpe", vocab_size=2000),
    )
    tokenizers = pytest.importorskip("tokenizers")
    texts = [*texts[2000:], "", "x" * 500, "e\u0301 😀, 1,000", "a [MASK] (b)"]
    with_comma = {text for text in texts if re.search(r"\d,", text)}
    # Where a digit and a comma are one piece, the rule for them takes effect
    # after merging, which the format cannot express.
    for rule, different in (("off", set()), ("corrected", with_comma)):
        settings = HUGGING_FACE_SLOW | {"digit_comma": rule}
        bpe = AlbertTokenizer.from_file(path, **settings)
        library = tokenizers.Tokenizer.from_str(tokenizer_json(bpe).decode())
        same = [
            text
            for text, ids in zip(texts, bpe.encode(texts), strict=True)
            if library.encode(text, add_special_tokens=False).ids == ids
        ]
        assert set(texts) - set(same) <= different
        assert len(same) > 0.95 * len(texts)


@pytest.mark.parametrize("with_json", [False, True])
def test_pairs_have_segments(tokenizer, tmp_path, with_json):
    files = {TOKENIZER_JSON: tokenizer_json(tokenizer)} if with_json else {}
    theirs = opened(tokenizer, tmp_path, **files)
    assert theirs.model_max_length == 512
    assert theirs.pad_token_id == 0
    texts, pairs = ["Who is it?", "x"], ["He.", "a [MASK] of"]
    packed, expected = (
        tokenizer(texts, pairs),
        theirs(texts, pairs, padding=True),
    )
    assert expected["token_type_ids"] == packed["input_type_ids"].tolist()
    assert expected["attention_mask"] == packed["input_mask"].tolist()
    assert expected["input_ids"] == packed["input_word_ids"].tolist()
