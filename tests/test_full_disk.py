"""A full disk is one line with the path, and what was there stays.

A limit of file sizes stands in for it: both are errors of writing.
"""

import contextlib
import pathlib
import resource
import shutil
import sys
import types
import unittest.mock

import pytest
from architectures import SMALL

from albert_tf.data import create_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.errors import StorageError
from albert_tf.exporting import runtime_formats
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.files import check_space, new_file, write_atomically, writing
from albert_tf.folders import new_folder
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_config import ConvertConfig
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

# Of 40 pieces.
_VOCABULARY = (
    pathlib.Path(__file__).parent / "interop" / "data" / "stored/spiece.model"
)


@contextlib.contextmanager
def full_disk():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    # Python does not notice that it stored a part of a compiled module.
    no_bytecode = unittest.mock.patch.object(sys, "dont_write_bytecode", True)
    try:
        with no_bytecode:
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_file(path):
    write_atomically(path, "x" * 2000)


def stream_file(path):
    with new_file(path) as file:
        file.write("x" * 2000)


def make_folder(path):
    with new_folder(path, overwrite=True, marker="a") as folder:
        (folder / "a").write_text("x" * 2000)


def save_model(path, tokenizer=None):
    AlbertEncoder(SMALL).save_pretrained(path, tokenizer)


def convert_to_keras_hub(path):
    source = path.with_name("source")
    if not source.exists():
        save_model(source)
    convert(
        ConvertConfig(input=source, output=path, to="keras_hub", overwrite=True)
    )


def export_to_openvino(path):
    pytest.importorskip("openvino", reason="openvino is not installed")
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    source = path.with_name("source")
    if not source.exists():
        save_model(source, AlbertTokenizer.from_file(_VOCABULARY))
    config = ExportConfig(
        model=source, output=path, kind="openvino", overwrite=True
    )
    # The temporary ONNX file is not what is limited here.
    with unittest.mock.patch.object(
        runtime_formats, "save", _save_without_limit
    ):
        export(config)


def _save_without_limit(*arguments, save=runtime_formats.save):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        save(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    "write",
    [
        write_file,
        stream_file,
        make_folder,
        save_model,
        convert_to_keras_hub,
        export_to_openvino,
    ],
)
def test_existing_files_are_unchanged(tmp_path, contents, write):
    path = tmp_path / "output"
    write(path)
    before = contents(tmp_path)
    with (
        pytest.raises(StorageError, match=f"{path}: File too large.* MB are"),
        full_disk(),
    ):
        write(path)
    assert contents(tmp_path) == before


@pytest.fixture
def data_config(tmp_path, google_tokenizer):
    text = tmp_path / "text.txt"
    text.write_text("A sentence of the text.\nAnd another one.\n\n" * 2000)
    return PretrainingDataConfig(
        input=text,
        output=tmp_path / "data",
        tokenizer=google_tokenizer,
        masking="static",
    )


def test_records_report_the_needed_space(tmp_path, data_config, monkeypatch):
    with (
        pytest.raises(StorageError, match=r"data: File.*about 0.9 MB needed\)"),
        full_disk(),
    ):
        create_data.create_pretraining_data(data_config)
    assert [x.name for x in tmp_path.iterdir()] == ["text.txt"]
    # Before the work begins.
    usage = types.SimpleNamespace(free=700_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(create_data, "make_records", None)
    with pytest.raises(StorageError, match=r"No space left.*\(0.7 MB are free"):
        create_data.create_pretraining_data(data_config)
    assert [x.name for x in tmp_path.iterdir()] == ["text.txt"]


def test_other_errors_are_unchanged(tmp_path):
    check_space(tmp_path / "a" / "b", 1)
    with pytest.raises(KeyError), writing(tmp_path):
        raise KeyError("x")
    for text in ("No space left on device", "Disk quota exceeded"):
        with pytest.raises(StorageError, match=text), writing("gs://a/b"):
            raise RuntimeError(f"a library: {text} (os error 28)")
