"""Malicious files: a case for each line of docs/security.md."""

import io
import json
import os
import pathlib
import re
import struct
import zipfile

import h5py
import pytest
from tensorflow.core.protobuf import tensor_bundle_pb2

from albert_tf.interop import torch_file

pytestmark = pytest.mark.long  # in a process with limited memory

# Format -> the file with the word embeddings.
FORMS = {
    "huggingface": "model.safetensors",
    "torch": "pytorch_model.bin",
    "keras_hub": "model.weights.h5",
    "google": "model.ckpt-best.data-00000-of-00001",
}
# `make test-long` runs without PyTorch, which reads the files of one form.
FORM_NAMES = [
    pytest.param(form, marks=pytest.mark.peer if form == "torch" else ())
    for form in FORMS
]
WORDS = "layers/reversible_embedding/vars/0"


@pytest.mark.parametrize("form", FORM_NAMES)
def test_valid_checkpoints_open(tmp_path, make, server, form):
    assert server.open(make(form, tmp_path))[0] == "opened"


@pytest.mark.parametrize("form", FORM_NAMES)
def test_flipped_bits_of_weights(tmp_path, checkpoint, make, open_error, form):
    path = make(form, tmp_path) / FORMS[form]
    content = path.read_bytes()
    words = checkpoint.arrays["encoder/embeddings/word_embeddings"].tobytes()
    start = content.index(words[:1000])
    for position in range(start, start + 1000, 143):
        damaged = bytearray(content)
        damaged[position] ^= 16
        path.write_bytes(damaged)
        message = open_error(tmp_path)
        # HDF5 calls its checksum a filter, and zip archives have a CRC.
        pattern = "[Cc]hecksum|filter returned failure|CRC-32"
        assert re.search(pattern, message)


# File in Hugging Face's layout, invalid content, error message.
JSON = [
    ("config.json", '{"a":' * 100_000, "deeper than 64 levels"),
    ("config.json", "[" * 100_000, "deeper than 64 levels"),
    ("config.json", '{"model_type": "albert", "a": "\\ud800"}', "surrogate"),
    ("config.json", {"num_hidden_layers": 100_000_000}, "num_hidden_layers"),
    ("config.json", {"num_hidden_groups": 10**6}, "num_hidden_groups"),
    ("config.json", {"inner_group_num": 10**9}, "inner_group_num"),
    ("config.json", {"vocab_size": 10**15}, "vocab_size"),
    ("config.json", {"hidden_size": "8"}, "an integer"),
    ("config.json", {"layer_norm_eps": float("inf")}, "layer_norm_eps"),
    ("config.json", {"architectures": "AlbertModel"}, "must be a list"),
    ("config.json", {"architectures": [["AlbertModel"]]}, "list of names"),
    ("config.json", {"classifier_dropout_prob": True}, "a number"),
    ("config.json", {"classifier_dropout_prob": 2}, "in [0, 1)"),
    ("config.json", {"id2label": {"0": None, "1": "a"}}, "to strings"),
    ("config.json", {"hidden_act": ["gelu"]}, "a string"),
    ("config.json", {"model_type": {}}, "a string"),
    ("model.safetensors.index.json", {"weight_map": {"a": 5}}, "lists no"),
    ("model.safetensors.index.json", {"weight_map": {"a": "../a"}}, "outside"),
    ("model.safetensors.index.json", {"weight_map": {"a": ".."}}, "outside"),
    (
        "model.safetensors.index.json",
        {"weight_map": {"a": "model.safetensors.index.json"}},
        "another index",
    ),
    (
        "model.safetensors.index.json",
        {"weight_map": {"a": "a" * 5000}},
        "which is missing",
    ),
    (
        "model.safetensors.index.json",
        {"weight_map": {"a": "\x1b[2J\n\u202e"}},
        "'\\x1b[2J\\n\\u202e', which is missing",
    ),
    ("runs.json", {"best": 5}, "must be a string"),
    ("runs.json", {"best": "../../x"}, "must name a folder beside"),
    ("tokenizer_config.json", {"do_lower_case": "False"}, "true or false"),
]


@pytest.mark.parametrize(("name", "values", "message"), JSON)
def test_json(tmp_path, make, open_error, name, values, message):
    path = make("huggingface", tmp_path) / name
    if name.startswith("model"):
        (tmp_path / "model.safetensors").unlink()
    if isinstance(values, dict):
        if path.exists():
            values = json.loads(path.read_text()) | values
        values = json.dumps(values)
    path.write_text(values)
    assert message in open_error(tmp_path)


# `task.json` of a preset: what is replaced in it or in its "config".
TASK = [
    ({"config": None}, "config=None must be an object"),
    ({"config": []}, "config=[] must be an object"),
    ({"class_name": ["AlbertTextClassifier"]}, "must be a string"),
    ({"class_name": None}, "must be a string"),
    ({"dropout": "0.1"}, "dropout='0.1' must be"),
    ({"dropout": 1.5}, "dropout=1.5 must be"),
    ({"backbone": "x"}, "backbone='x' must be"),
]


@pytest.mark.parametrize(("changes", "message"), TASK)
def test_tasks_of_keras_hub(tmp_path, make, open_error, changes, message):
    path = make("keras_hub", tmp_path) / "task.json"
    values = json.loads(path.read_text())
    outer = changes.keys() <= values.keys()
    (values if outer else values["config"]).update(changes)
    path.write_text(json.dumps(values))
    assert message in open_error(tmp_path)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("huggingface", "config.json"),
        ("huggingface", "model.safetensors"),
        ("torch", "pytorch_model.bin"),
        ("keras_hub", "model.weights.h5"),
        ("keras_hub", "task.json"),
        ("google", "albert_config.json"),
        ("google", "model.ckpt-best.index"),
        ("google", "model.ckpt-best.data-00000-of-00001"),
    ],
)
def test_pipes_and_devices(tmp_path, make, open_error, form, name):
    path = make(form, tmp_path) / name
    path.unlink()
    os.mkfifo(path)
    assert "a pipe, device or socket" in open_error(tmp_path)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "a pipe, device or socket" in open_error(tmp_path)


def replace_words(change):
    """Changes the word embeddings of a preset."""

    def apply(folder):
        with h5py.File(folder / "model.weights.h5", "r+") as file:
            values = file[WORDS][()]
            del file[WORDS]
            change(file, values)

    return apply


def external(file, values):
    outside = pathlib.Path(file.filename).with_name("outside")
    outside.write_bytes(values.tobytes())
    file.create_dataset(
        WORDS, values.shape, "f4", external=[(str(outside), 0, values.nbytes)]
    )


def virtual(file, values):
    outside = pathlib.Path(file.filename).with_name("outside.h5")
    with h5py.File(outside, "w") as other:
        other["x"] = values
    layout = h5py.VirtualLayout(values.shape, "f4")
    layout[:] = h5py.VirtualSource(outside, "x", values.shape)
    file.create_virtual_dataset(WORDS, layout)


def linked(link):
    def change(file, values):
        file["elsewhere"] = values
        file[WORDS] = link(file)

    return change


def circle(file, values):
    file[WORDS] = file["layers"]


def without_data(file, values):
    file.create_dataset(WORDS, (1 << 20, 1 << 10), "f4", chunks=(1 << 10,) * 2)


def compressed(file, values):
    file.create_dataset(WORDS, data=values * 0, compression="gzip")


def text(file, values):
    file.create_dataset(WORDS, data=["a"] * 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (external, "is stored outside of the file"),
        (virtual, "is stored outside of the file"),
        (linked(lambda file: h5py.SoftLink("/elsewhere")), "is a link"),
        (linked(lambda f: h5py.ExternalLink("o.h5", "x")), "is a link"),
        (linked(lambda file: file["elsewhere"]), "has two names"),
        (circle, "has two names"),
        (without_data, "takes 4,294,967,296 bytes"),
        (compressed, "is compressed"),
        (text, "expected numbers"),
    ],
)
def test_hdf5(tmp_path, make, open_error, change, message):
    replace_words(change)(make("keras_hub", tmp_path))
    assert message in open_error(tmp_path)


def int4(number):
    return b"J" + struct.pack("<i", number)


ORDERED = b"ccollections\nOrderedDict\n"
# Each contains the previous one twice: 2^60 parts.
TUPLES = b")q\x00" + b"h\x00h\x00\x86q\x00" * 60
PAIRS = b"]q\x00(" + b"".join(b"](" + int4(i) + b"Ne" for i in range(20_000))
MANY = b"(" + b"".join(int4(i) + b"N" for i in range(30_000)) + b"u"
BOMBS = {
    "a key": b"}" + TUPLES + b"Ns.",
    "a key of pairs": ORDERED + b"](](" + TUPLES + b"Nee\x85R.",
    "a part of a set": b"\x8f(" + TUPLES + b"\x90.",
    "copies": ORDERED + b"q\x02](" + PAIRS + b"e"
    + b"h\x02h\x00\x85R" * 2000 + b"e.",
    "one dictionary many times": b"}(K\x01}q\x00" + MANY
    + b"".join(int4(i) + b"h\x00" for i in range(30_000)) + b"u.",
    "steps": b"]" * 4_000_000 + b".",
    "a large integer": b"\x8b" + struct.pack("<i", 3 << 20) + bytes(3 << 20)
    + b".",
    "a memo": b"}r\xff\xff\xff\x7f.",
    "doubling": b")" + b"2\x86" * 1000 + b".",
}  # fmt: skip


@pytest.mark.peer
@pytest.mark.parametrize("name", BOMBS)
def test_malicious_pickles(tmp_path, make, open_error, name):
    path = make("torch", tmp_path) / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x04" + BOMBS[name])
        archive.writestr("a/version", "3\n")
    assert open_error(tmp_path).startswith(f"{path}: ")


@pytest.mark.peer
def test_a_zip_archive_with_a_huge_directory(tmp_path, make, open_error):
    path = make("torch", tmp_path) / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(200):
            archive.writestr(f"{number:<60000}", b"")
    assert open_error(tmp_path).startswith(f"{path}: ")


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    content = b""
    while number > 127:
        content, number = content + bytes([number & 127 | 128]), number >> 7
    return content + bytes([number])


def index_of(entries, start=0):
    """Returns the index of a checkpoint, in LevelDB's table format.

    Args:
      entries: tensors by name.
      start: where readers begin with them.
    """
    content = b""

    def block(pairs):
        nonlocal content
        block = b""
        for key, value in pairs:
            block += varint(0) + varint(len(key)) + varint(len(value))
            block += key + value
        block += struct.pack("<II", start if len(pairs) > 1 else 0, 1)
        handle = varint(len(content)) + varint(len(block))
        content += block + b"\0" + struct.pack("<I", crc32c(block + b"\0"))
        return handle

    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    values = [(b"", header.SerializeToString())]
    values += [(k.encode(), v.SerializeToString()) for k, v in entries.items()]
    handle = block(values)
    handles = block([]) + block([(b"\xff", handle)])
    magic = struct.pack("<Q", 0xDB4775248B80FB57)
    return content + handles.ljust(40, b"\0") + magic


def entry(shape, size=16, **fields):
    made = tensor_bundle_pb2.BundleEntryProto(size=size, **fields)
    for length in shape:
        made.shape.dim.add(size=length)
    return made


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (entry([-4], dtype=1), "has the shape [-4]"),
        (entry([1] * 300, 4, dtype=1), "has the shape [1, 1,"),
        (entry([1 << 40, 1 << 40], dtype=1), "has the shape"),
        (entry([0, 1 << 40, 1 << 40], 0, dtype=1), "has the shape"),
        (entry([1 << 30], dtype=1), "does not fit into 16 bytes"),
        (entry([1 << 30], 1 << 32, dtype=1), "ends at byte 4,294,967,296"),
        (entry([4], dtype=1, offset=-8), "ends at byte 8"),
        (entry([4], dtype=1, shard_id=7), "No such file or directory"),
        (entry([4], dtype=99), "has the unknown type 99"),
        (entry([], dtype=7), "is not a string"),
    ],
)
def test_indices_of_tensorflow(tmp_path, make, open_error, tensor, message):
    prefix = make("google", tmp_path) / "model.ckpt-best"
    entries = {"_CHECKPOINTABLE_OBJECT_GRAPH": tensor}
    prefix.with_name("model.ckpt-best.index").write_bytes(index_of(entries))
    data = prefix.with_name("model.ckpt-best.data-00000-of-00001")
    data.write_bytes(varint(1 << 40) + bytes(10))
    assert message in open_error(tmp_path)


def test_entries_that_only_tensorflow_would_read(tmp_path, make, open_error):
    """An entry in the value of another one, at which its readers begin."""
    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    hidden = b""
    for key, value in (b"", header), (b"b", entry([1 << 40] * 2, dtype=1)):
        value = value.SerializeToString()
        hidden += varint(0) + varint(len(key)) + varint(len(value))
        hidden += key + value
    outer = tensor_bundle_pb2.BundleEntryProto.FromString(
        entry([4], dtype=1).SerializeToString()
        + varint(100 << 3 | 2)  # An unknown field.
        + varint(len(hidden))
        + hidden
    )
    prefix = make("google", tmp_path) / "model.ckpt-best"
    prefix.with_name("model.ckpt-best.data-00000-of-00001").write_bytes(
        bytes(16)
    )
    index = prefix.with_name("model.ckpt-best.index")
    index.write_bytes(index_of({"a": outer}))
    start = index.read_bytes().index(hidden)
    index.write_bytes(index_of({"a": outer}, start))
    assert "a block begins inside an entry" in open_error(tmp_path)


def directories(*parts):
    """Returns a zip archive with a table of contents for each part.

    Python finds the last one, PyTorch the one that the end names: the first.
    """
    content, tables = b"", []
    for entries in parts:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, value in entries.items():
                archive.writestr(name, value)
        made = file.getvalue()
        size, offset = struct.unpack("<II", made[-10:-2])
        tables.append((made[offset : offset + size], len(content) + offset))
        content += made[: offset + size]
    (_, first), (table, _) = tables
    end = struct.pack(
        "<4s4H2IH", b"PK\5\6", 0, 0, *[2] * 2, len(table), first, 0
    )
    return content + end


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["a/data.pkl", "a/data.pkl"], "two tables of contents"),
        (["a/data.PKL", "a/x/data.pkl"], "not have one data.pkl"),
        (["a/DATA.PKL"], "takes 8388608 bytes"),
        (["a/version"], "not have one data.pkl"),
    ],
)
def test_pickles_that_only_pytorch_would_read(tmp_path, parts, message):
    path = tmp_path / "pytorch_model.bin"
    if "two" in message:
        content = directories(*({x: b"N.", "a/version": "3"} for x in parts))
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name in parts:
                archive.writestr(name, bytes(1 << 23))
    with pytest.raises(torch_file._UnsupportedError, match=message):
        torch_file._check_archive(path)
