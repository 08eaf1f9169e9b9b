import zipfile

import pytest

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.runtimes import export_for_runtime
from albert_tf.runtimes.ids_program import encoder_program
from albert_tf.text.tokenizer_files import load_tokenizer


@pytest.fixture(scope="module")
def program(wide, length):
    return encoder_program(wide, seq_length=length)


@pytest.fixture(scope="module")
def write(program, tokenizer):
    """Returns `write(path, **settings)`: exports the program."""

    def write(path, **settings):
        export_for_runtime(
            program,
            ExportConfig(model="m", output=path, kind="litert", **settings),
            tokenizer=tokenizer,
            task={"labels": ["very\nbad", "good\u2028enough", ""]},
        )

    return write


@pytest.fixture(scope="module")
def folder(write, tmp_path_factory):
    path = tmp_path_factory.mktemp("litert") / "export"
    write(path, quantization="dynamic")
    return path


def test_folder(folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "export.json",
        "model.tflite",
    ]


def test_vocabulary_comes_out_of_the_model(folder, tokenizer, tmp_path):
    with zipfile.ZipFile(folder / "model.tflite") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path)
    labels = (tmp_path / "labels.txt").read_text("utf-8")
    assert labels == "very bad\ngood enough\n\n"
    text = "I have really seen 1,000 good movies"
    assert load_tokenizer(tmp_path).encode(text) == tokenizer.encode(text)


def test_equal_exports_have_equal_bytes(folder, write, tmp_path):
    write(tmp_path / "again", quantization="dynamic")
    for name in ("model.tflite", "export.json"):
        again = (tmp_path / "again" / name).read_bytes()
        assert again == (folder / name).read_bytes(), name
