import gzip
import pathlib
import tarfile
import zipfile

import h5py
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from albert_tf.errors import InputError
from albert_tf.interop.file_types import KINDS, explain_bad_file, file_kind

DATA = pathlib.Path(__file__).parent / "data"
HTML = b"\n<!DOCTYPE html>\n<html><head><title>Log in</title></head></html>"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
WEIGHTS = ("safetensors", "torch_zip", "torch_legacy")


def make_hdf5(path, version="earliest"):
    with h5py.File(path, "w", libver=version) as file:
        file["a"] = np.zeros(500)


def make_tf_index(path):
    prefix = path.with_name("model.ckpt")
    tf.train.Checkpoint(a=tf.Variable(1.0)).write(str(prefix))
    path.with_name("model.ckpt.index").replace(path)


def make_tar(path, mode="w", format=tarfile.DEFAULT_FORMAT):
    member = path.with_name("member")
    member.write_bytes(b"x" * 100)
    with tarfile.open(path, mode, format=format) as archive:
        archive.add(member, "albert_base/albert_config.json")


def make_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", "{}")


def copy(name):
    return lambda path: path.write_bytes((DATA / name).read_bytes())


def write(content):
    return lambda path: path.write_bytes(content)


FILES = [
    ("safetensors", lambda path: save_file({"a": np.zeros(50)}, path)),
    ("torch_zip", copy("torch_zip.bin")),
    ("torch_legacy", copy("torch_legacy.bin")),
    ("hdf5", make_hdf5),
    ("hdf5", lambda path: make_hdf5(path, "latest")),
    ("tf_index", make_tf_index),
    ("tar", make_tar),
    ("tar", lambda path: make_tar(path, format=tarfile.GNU_FORMAT)),
    ("tar", lambda path: make_tar(path, format=tarfile.USTAR_FORMAT)),
    ("tar_gz", lambda path: make_tar(path, "w:gz")),
    ("gzip", write(gzip.compress(b"no archive"))),
    ("zip", make_zip),
    ("html", write(HTML)),
    ("html", write(b'<?xml version="1.0"?><Error>AccessDenied</Error>')),
    ("git_lfs", write(LFS)),
    ("text", write(b'\xef\xbb\xbf{\n  "hidden_size": 768\n}')),
    ("text", write(("x" * 4095 + "ü").encode())),  # cut in the last letter
    ("empty", write(b"")),
    ("folder", lambda path: path.mkdir()),
    ("missing", lambda path: None),
    ("unknown", write(bytes(1000))),
    ("unknown", write(np.random.default_rng(0).bytes(10_000))),
]


@pytest.mark.parametrize(("kind", "make"), FILES)
def test_kinds_are_detected_by_content(tmp_path, kind, make):
    path = tmp_path / "weights.safetensors"  # whatever the name says
    make(path)
    assert file_kind(path) == kind
    for expected in ("safetensors", "hdf5", WEIGHTS, ("tar", "tar_gz")):
        with pytest.raises(InputError) as error:
            explain_bad_file(path, expected, "a reader's\nown words")
        message = str(error.value)
        assert message.startswith(f"{path}: ")
        assert not message.endswith(".")
        assert "\n" not in message


def test_every_kind_of_file_is_tested():
    assert KINDS == {kind for kind, _ in FILES}


@pytest.mark.parametrize(
    ("make", "expected", "message"),
    [
        (
            write(HTML),
            WEIGHTS,
            "an HTML or XML page, not a safetensors file or a PyTorch weights "
            "file; the download went wrong: check the address, or log in",
        ),
        (
            write(b"Invalid username\nor password."),
            "safetensors",
            'a text file, "Invalid username or password.", not a safetensors '
            "file; give a safetensors file",
        ),
        (
            make_hdf5,
            ("tar", "tar_gz", "safetensors"),
            "an HDF5 weights file, not a tar archive, a tar.gz archive or a "
            "safetensors file; HDF5 files are read in KerasHub's presets only: "
            "load those of save_weights with load_weights, and save a "
            "tf_model.h5 of transformers as safetensors",
        ),
        (
            make_tf_index,
            "safetensors",
            "the index of a TensorFlow checkpoint, not a safetensors file; "
            "give the checkpoint's prefix, the path without .index",
        ),
    ],
)
def test_messages(tmp_path, make, expected, message):
    path = tmp_path / "weights"
    make(path)
    with pytest.raises(InputError) as error:
        explain_bad_file(path, expected, "bad block")
    assert str(error.value) == f"{path}: {message}"


def test_a_file_without_read_permission(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    path.write_bytes(b"x")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "open", refuse)  # root may read all
    with pytest.raises(InputError, match="Permission denied; check its perm"):
        file_kind(path)
