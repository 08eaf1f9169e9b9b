import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.interop.sentence_transformers import settings_files
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.text.preprocessor_layer import AlbertPreprocessor

LONGEST = 40  # of the models in conftest.py


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


@pytest.fixture
def short(pretrained, tokenizer, tmp_path):
    """A folder of sentence-transformers that cuts texts to 9 tokens."""
    folder = shutil.copytree(pretrained, tmp_path / "short")
    files = settings_files(
        16, pooling="mean", normalize=False, max_length=9, tokenizer=tokenizer
    )
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_rows_are_as_long_as_those_of_an_embedder(short, tmp_path):
    texts = tf.constant(["I have seen it " * 60, "a good film"])
    for kind in ("text_encoder", "preprocessor"):
        export(ExportConfig(model=short, output=tmp_path / kind, kind=kind))
    rows = tf.saved_model.load(tmp_path / "preprocessor")(texts)
    assert rows["input_mask"].shape == (2, 9)
    np.testing.assert_allclose(
        tf.saved_model.load(tmp_path / "text_encoder")(texts)["mean_output"],
        SentenceEmbedder(short, normalize=False)(
            [x.decode() for x in texts.numpy()]
        ),
        atol=1e-5,
    )


def test_only_exports_are_overwritten(pretrained, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("of another program")
    settings = {"model": pretrained, "output": folder, "overwrite": True}
    with pytest.raises(InputError, match=r"has no export\.json"):
        export(ExportConfig(kind="preprocessor", **settings))
    assert (folder / "saved_model.pb").read_text() == "of another program"
    shutil.rmtree(folder)
    for kind, file in (
        ("preprocessor", "saved_model.pb"),
        ("litert", "model.tflite"),
        ("preprocessor", "saved_model.pb"),
    ):
        export(ExportConfig(kind=kind, **settings))
        assert (folder / file).exists()


def test_folders_that_tensorflow_cannot_read_are_refused(pretrained, tmp_path):
    for kind in ("encoder", "preprocessor"):
        with pytest.raises(InputError, match=r"name has \[; choose another"):
            export(
                ExportConfig(
                    model=pretrained, output=tmp_path / "a[1]", kind=kind
                )
            )
    assert list(tmp_path.glob("a*")) == []


def test_weights_of_tokens_are_not_exported(pretrained, tmp_path, caplog):
    embedder = SentenceEmbedder(pretrained, pooling="weighted_mean")
    embedder.save_pretrained(tmp_path / "weighted")
    for kind in ("litert", "preprocessor"):
        export(
            ExportConfig(
                model=tmp_path / "weighted", output=tmp_path / kind, kind=kind
            )
        )
    assert caplog.text.count("mean_output of the export is the plain mean") == 1


def test_a_head_that_is_not_exported_is_named(pretrained, tmp_path, caplog):
    convert(
        ConvertConfig(
            input=pretrained, output=tmp_path / "order", drop=("mlm_head",)
        )
    )
    export(
        ExportConfig(
            model=tmp_path / "order", output=tmp_path / "e", kind="encoder"
        )
    )
    assert "the export has neither .sop nor .mlm" in caplog.text


def test_a_tokenizer_is_needed(tmp_path, config):
    AlbertEncoder(config).save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="has no tokenizer"):
        export(ExportConfig(model=tmp_path / "model", output=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_text_encoder_of_a_fine_tuned_model(
    make_finetuned, assert_same_as_source, tmp_path
):
    source, folder = make_finetuned("sst2", max_seq_length=32), tmp_path / "e"
    export(ExportConfig(model=source, output=folder, kind="text_encoder"))
    assert_same_as_source(source, folder)
