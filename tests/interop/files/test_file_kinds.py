import io
import pathlib
import pickle
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.files.file_kinds import (
    KINDS,
    explain_bad_file,
    file_kind,
)
from albert_tf.interop.files.safetensors_file import write_safetensors

DATA = pathlib.Path(__file__).parents[1] / "data"
HTML = b"\n<!DOCTYPE html>\n<html><head><title>Log in</title></head></html>"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
DENIED = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'
WEIGHTS = ("safetensors", "torch_zip", "torch_legacy")


def make_safetensors(path):
    write_safetensors(path, {"a": np.zeros(50)})


def make_hdf5(path, version="earliest"):
    with h5py.File(path, "w", libver=version) as file:
        file["a"] = np.zeros(500)


def make_tf_index(path):
    prefix = path.with_name("model.ckpt")
    tf.train.Checkpoint(a=tf.Variable(1.0)).write(str(prefix))
    path.with_name("model.ckpt.index").replace(path)


def make_tf_meta(path):
    with tf.Graph().as_default():
        tf.compat.v1.get_variable("w", [3])
        tf.compat.v1.train.export_meta_graph(str(path))


def make_saved_model(path):
    folder = path.with_name("saved")
    tf.saved_model.save(tf.train.Checkpoint(a=tf.Variable(1.0)), str(folder))
    (folder / "saved_model.pb").replace(path)


def make_sentencepiece(path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["some words of a text"] * 9),
        model_writer=model,
        vocab_size=20,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())


def make_tar(path, mode="w", format=tarfile.DEFAULT_FORMAT):
    member = path.with_name("member")
    member.write_bytes(b"x" * 100)
    with tarfile.open(path, mode, format=format) as archive:
        archive.add(member, "albert_base/albert_config.json")


def make_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")


def make_gzip(path):
    import gzip

    path.write_bytes(gzip.compress(b"no archive"))


def copy(name):
    return lambda path: path.write_bytes((DATA / name).read_bytes())


def write(content):
    return lambda path: path.write_bytes(content)


FILES = [
    ("safetensors", make_safetensors),
    ("torch_zip", copy("torch_zip.bin")),
    ("torch_legacy", copy("torch_legacy.bin")),
    ("hdf5", make_hdf5),
    ("hdf5", lambda path: make_hdf5(path, "latest")),
    ("tf_index", make_tf_index),
    ("tf_meta", make_tf_meta),
    ("saved_model_pb", make_saved_model),
    ("sentencepiece", make_sentencepiece),
    ("tar", make_tar),
    ("tar", lambda path: make_tar(path, format=tarfile.GNU_FORMAT)),
    ("tar", lambda path: make_tar(path, format=tarfile.USTAR_FORMAT)),
    ("tar_gz", lambda path: make_tar(path, "w:gz")),
    ("gzip", make_gzip),
    ("zip", make_zip),
    ("pickle", write(pickle.dumps({"a": 1}))),
    ("json", write(b'\xef\xbb\xbf{\n  "hidden_size": 768\n}')),
    ("json", write(b"[]")),
    ("html", write(HTML)),
    ("xml", write(DENIED)),
    ("git_lfs", write(LFS)),
    ("text", write("Entry not found, tschüß".encode())),
    ("text", write(("x" * 4095 + "ü").encode())),  # cut in the last letter
    ("empty", write(b"")),
    ("folder", lambda path: path.mkdir()),
    ("missing", lambda path: None),
    ("unknown", write(bytes(1000))),
    ("unknown", write(np.random.default_rng(0).bytes(10_000))),
]


@pytest.mark.parametrize(("kind", "make"), FILES)
def test_the_content_tells_the_kind(tmp_path, kind, make):
    path = tmp_path / "weights.safetensors"  # whatever the name says
    make(path)
    assert file_kind(path) == kind
    assert kind in KINDS


def test_every_kind_is_told():
    assert KINDS == {kind for kind, _ in FILES}


def test_shared_files(shared):
    prefix = shared("golden", "google", "model", "a_base")
    assert file_kind(prefix / "model.ckpt-best.index") == "tf_index"
    assert file_kind(prefix / "albert_config.json") == "json"


@pytest.mark.parametrize(("kind", "make"), FILES)
def test_every_error_is_one_line(tmp_path, kind, make):
    path = tmp_path / "weights"
    make(path)
    for expected in ("safetensors", "hdf5", WEIGHTS, ("tar", "tar_gz")):
        with pytest.raises(InputError) as error:
            explain_bad_file(path, expected, "a reader's\nown words")
        message = str(error.value)
        assert message.startswith(f"{path}: ")
        assert message.endswith(".")
        assert "\n" not in message


@pytest.mark.parametrize(
    ("make", "expected", "message"),
    [
        (
            lambda path: None,
            "safetensors",
            "no such file; give the path of a safetensors file.",
        ),
        (
            write(b""),
            "hdf5",
            "an empty file, not an HDF5 weights file; copy or download it "
            "again.",
        ),
        (
            write(HTML),
            WEIGHTS,
            "an HTML page, not a safetensors file or a PyTorch weights file; "
            "the download went wrong: check the address, or log in.",
        ),
        (
            write(LFS),
            "safetensors",
            "a Git LFS pointer, not a safetensors file; fetch the file it "
            "stands for with `git lfs pull`.",
        ),
        (
            write(DENIED),
            "tar_gz",
            "XML, not a tar.gz archive; the download went wrong: check the "
            "address, or log in.",
        ),
        (
            write(b'{"error": "Repository not \\"found\\""}'),
            "safetensors",
            "the message \"Repository not 'found'\", not a safetensors file; "
            "the download went wrong: check the address, or log in.",
        ),
        (
            write(b"Invalid username\nor password."),
            "safetensors",
            'the message "Invalid username or password.", not a safetensors '
            "file; the download went wrong: check the address, or log in.",
        ),
        (
            write(b'{"hidden_size": 768}'),
            "safetensors",
            "JSON, not a safetensors file; give the weights, not their "
            "configuration.",
        ),
        (
            make_tf_meta,
            "tf_index",
            "the graph of a TensorFlow 1 checkpoint (.meta), not the index of "
            "a TensorFlow checkpoint; give the checkpoint's prefix, the path "
            "without .meta.",
        ),
        (
            make_hdf5,
            ("tar", "tar_gz", "safetensors"),
            "an HDF5 weights file, not a tar archive, a tar.gz archive or a "
            "safetensors file; give a tar archive, a tar.gz archive or a "
            "safetensors file.",
        ),
        (
            write(bytes(100)),
            "safetensors",
            "of an unknown kind, not a safetensors file; give a safetensors "
            "file.",
        ),
        (
            make_tf_index,
            "tf_index",
            "the index of a TensorFlow checkpoint that is damaged or "
            "incomplete (bad block); copy or download it again.",
        ),
    ],
)
def test_messages(tmp_path, make, expected, message):
    path = tmp_path / "weights"
    make(path)
    with pytest.raises(InputError) as error:
        explain_bad_file(path, expected, "bad block")
    assert str(error.value) == f"{path}: {message}"


def test_a_data_file_of_a_checkpoint_is_known_by_its_name(tmp_path):
    path = tmp_path / "model.ckpt.data-00000-of-00001"
    path.write_bytes(bytes(100))
    with pytest.raises(
        InputError, match="a data file .* give the checkpoint's"
    ):
        explain_bad_file(path, "tf_index")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_safetensors, "safetensors"),
        (make_hdf5, "hdf5"),
        (lambda path: make_hdf5(path, "latest"), "hdf5"),
    ],
)
def test_missing_bytes_are_counted(tmp_path, make, kind):
    path = tmp_path / "weights"
    make(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    size = len(content)
    with pytest.raises(InputError, match=rf"\({size - 1} of {size} bytes\)"):
        explain_bad_file(path, kind)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    path.write_bytes(b"x")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "open", refuse)  # root may read all
    with pytest.raises(InputError, match="Permission denied; check its perm"):
        file_kind(path)
