import gzip
import itertools

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.text.preprocessor_layer import AlbertPreprocessor
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.tokenizer_files import HUGGING_FACE_SLOW

LONGEST = 40  # of the models in conftest.py
TEXTS = ["``ÉA 2,000'' ΑΣ", "<PAD> [MASK], straße"]


@pytest.fixture(scope="module")
def encoder(config):
    return AlbertEncoder(
        config.replace(vocab_size=30000, max_position_embeddings=16)
    )


@pytest.mark.long
def test_exports_of_a_saved_model(shared, tmp_path, encoder):
    model = shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    tokenizer = AlbertTokenizer.from_file(model, **HUGGING_FACE_SLOW)
    encoder.save_pretrained(tmp_path / "model", tokenizer)
    export(ExportConfig(model=tmp_path / "model", output=tmp_path / "encoder"))
    export(
        ExportConfig(
            model=tmp_path / "model",
            output=tmp_path / "preprocessor",
            kind="preprocessor",
            seq_length=16,
        )
    )
    preprocess = tf.saved_model.load(tmp_path / "preprocessor")
    ids = preprocess.tokenize(tf.constant(TEXTS)).to_list()
    assert ids == tokenizer.encode(TEXTS)
    # With Google's settings, text never becomes special tokens.
    assert {0, 4} <= set(ids[1])

    for language in ("en", "zh"):
        path = shared("data", f"wikipedia-{language}", "train.txt.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            texts = [line.rstrip("\n") for line in itertools.islice(file, 2000)]
        expected = tokenizer.encode(texts)
        assert preprocess.tokenize(tf.constant(texts)).to_list() == expected
        assert sum(map(len, expected)) > 10_000

    inputs = preprocess(tf.constant(TEXTS))
    exported = tf.saved_model.load(tmp_path / "encoder")(inputs)
    tf.debugging.assert_near(
        exported["sequence_output"],
        encoder(inputs)["sequence_output"],
        atol=1e-5,
    )


def test_rows_of_a_preprocessor_fit_the_encoder(exports):
    """The models of `make demo` have fewer positions than TF-Hub's 128."""
    source, encoder = exports["encoder"]
    _, preprocessor = exports["preprocessor"]
    texts = tf.constant(["I have seen it " * 60, "a good film"])
    rows = tf.saved_model.load(preprocessor)(texts)
    assert rows["input_mask"].shape == (2, LONGEST)
    states = tf.saved_model.load(encoder)(rows)["sequence_output"]
    assert states.shape[:2] == (2, LONGEST)
    model = AlbertEncoder.from_pretrained(source)
    assert model.tokenizer.model_max_length == LONGEST
    layer = AlbertPreprocessor.from_tokenizer(model.tokenizer)
    assert model(layer(texts))["sequence_output"].shape == states.shape
    assert encoder_program(model).seq_length == LONGEST


def test_a_tokenizer_is_needed(tmp_path, encoder):
    AlbertEncoder(encoder.config).save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="has no tokenizer"):
        export(ExportConfig(model=tmp_path / "model", output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
