"""The model that is part of the package, by its name and without a network."""

import pathlib
import unicodedata

import numpy as np
import pytest
import safetensors.numpy

import albert_tf
from albert_tf import pretrained_models
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.hubs import resolve
from albert_tf.interop.open_checkpoint import open_checkpoint

NAME = "albert_tiny_en"
FOLDER = pathlib.Path(resolve(NAME))
MAX_BYTES = 8_000_000


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Neither a hub nor a file of the current folder has a part in it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def refuse(*_, **__):
        raise AssertionError("a hub was asked")

    monkeypatch.setattr("albert_tf.interop.hubs.from_hugging_face", refuse)
    monkeypatch.setattr("albert_tf.interop.hubs.from_kaggle", refuse)


def test_each_model_is_complete():
    assert pretrained_models.packaged_names() == [NAME]
    assert {path.name for path in FOLDER.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        "spiece.model",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MAX_BYTES


def test_it_is_what_convert_writes(tmp_path, contents):
    convert(ConvertConfig(input=NAME, output=tmp_path / "new", dtype="float16"))
    expected, found = contents(FOLDER), contents(tmp_path / "new")
    del expected["README.md"]
    if unicodedata.unidata_version != "14.0.0":  # Others know other accents.
        del expected["tokenizer.json"], found["tokenizer.json"]
    assert found == expected


def test_weights_are_float16_and_opened_exactly():
    stored = safetensors.numpy.load_file(FOLDER / "model.safetensors")
    assert {array.dtype.name for array in stored.values()} == {"float16"}
    assert all(np.isfinite(array).all() for array in stored.values())
    model = albert_tf.AlbertEncoder.from_pretrained(NAME)
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    (words,) = (x for name, x in stored.items() if "word_embeddings" in name)
    (ours,) = (x for x in model.weights if "word_embeddings" in x.path)
    np.testing.assert_array_equal(ours, words.astype(np.float32))


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (albert_tf.AlbertEncoder, {}),
        (albert_tf.AlbertPretrainer, {"sop_head": False}),
        (albert_tf.AlbertPretrainer, {"sop_head": True}),
        (albert_tf.AlbertClassifier, {"num_labels": 2}),
        (albert_tf.AlbertTokenClassifier, {"num_labels": 3}),
        (albert_tf.AlbertQuestionAnswering, {"head": "v1"}),
        (albert_tf.AlbertMultipleChoice, {"new_head": True}),
    ],
)
def test_every_class_opens_it(model, arguments):
    loaded = model.from_pretrained(NAME, **arguments)
    assert loaded.config.vocab_size == loaded.tokenizer.vocab_size == 10000
    expected = open_checkpoint(NAME).arrays
    equal = [x for x in loaded.weights if x.path in expected]
    assert len(equal) > 20
    for weight in equal:
        np.testing.assert_array_equal(weight, expected[weight.path])


def test_tokenizers():
    text = "The Café opens at nine."
    ids = albert_tf.load_tokenizer(NAME)([text])["input_word_ids"]
    other = albert_tf.AlbertTokenizer.from_pretrained(NAME)
    np.testing.assert_array_equal(ids, other([text])["input_word_ids"])
    assert other.decode(ids[0, 1:-1]) == "the cafe opens at nine."


def test_pipelines_open_it_by_default():
    embed = albert_tf.SentenceEmbedder()
    assert embed(["A good story.", ""]).shape == (2, 384)
    fills = albert_tf.FillMask()("Paris is the capital [MASK] France.")
    assert len(fills) == 5
    assert "of" in [fill["token_str"] for fill in fills]


def test_a_local_folder_of_its_name_comes_first(
    checkpoint, tmp_path, monkeypatch
):
    (tmp_path / NAME).symlink_to(checkpoint)
    monkeypatch.chdir(tmp_path)
    config = albert_tf.AlbertEncoder.from_pretrained(NAME).config
    assert config.hidden_size == 64
