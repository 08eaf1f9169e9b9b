import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from albert_tf.errors import InputError
from albert_tf.interop.files.safetensors_file import (
    LazyTensor,
    SafetensorsFile,
    write_safetensors,
)


def some_tensors():
    random = np.random.default_rng(0)
    types = "u8 i8 f8 f4 u4 i4 f2 u2 i2 i1 u1 b1".split()
    # Names against the order of the types, and types met twice.
    tensors = {
        f"{name}{i}": (random.normal(size=(2, i + 1)) * 9).astype(dtype)
        for i in range(2)
        for name, dtype in zip("zyxwvutsrqpo", types, strict=True)
    }
    tensors["b.scalar"] = np.array(2.5, np.float32)
    tensors["a.empty"] = np.zeros((0, 3), np.float32)
    tensors["é \n\t\x7f\x01\u2028😀"] = np.arange(3)
    return tensors


def raw_file(path, entries, data=b"", metadata=None):
    """Writes a header as given; the library would refuse to."""
    if metadata is not None:
        entries = {"__metadata__": metadata} | entries
    header = json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def entry(start, stop, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"ü": "\n"}])
@pytest.mark.parametrize("tensors", [{}, some_tensors()], ids=["none", "some"])
def test_writes_what_the_library_writes(tmp_path, tensors, metadata):
    write_safetensors(tmp_path / "ours", tensors, metadata)
    safetensors.numpy.save_file(tensors, tmp_path / "theirs", metadata)
    ours, theirs = (tmp_path / "ours").read_bytes(), tmp_path / "theirs"
    assert ours == theirs.read_bytes()
    read = safetensors.numpy.load_file(tmp_path / "ours")
    for name, value in tensors.items():
        np.testing.assert_array_equal(read[name], value)


def test_reads_what_the_library_writes(tmp_path):
    tensors = some_tensors()
    safetensors.numpy.save_file(tensors, tmp_path / "a", {"format": "pt"})
    file = SafetensorsFile(tmp_path / "a")
    assert file.metadata == {"format": "pt"}
    assert list(file) == sorted(tensors)
    assert len(file) == len(tensors)
    assert "a.empty" in file
    assert "absent" not in file
    for name, value in tensors.items():
        if value.dtype == np.float16:
            value = value.astype(np.float32)
        assert file.shape(name) == value.shape
        assert file.dtype(name) == file[name].dtype == value.dtype
        np.testing.assert_array_equal(file[name], value)
    with pytest.raises(KeyError):
        file["absent"]


def test_bfloat16_is_given_as_float32(tmp_path):
    values = np.array([[1.5, -0.0, np.inf], [3e38, 1e-40, -2.0]], np.float32)
    halves = (values.view(np.uint32) >> 16).astype("<u2")
    entries = {"a": entry(0, 12, [2, 3], "BF16")}
    path = raw_file(tmp_path / "a", entries, halves.tobytes())
    file = SafetensorsFile(path)
    assert file.dtype("a") == file["a"].dtype == np.float32
    expected = (halves.astype(np.uint32) << 16).view(np.float32)
    assert file["a"].tobytes() == expected.tobytes()
    assert file["a"][0].tolist() == [1.5, -0.0, np.inf]
    assert file.metadata == {}


@pytest.mark.peer
def test_reads_what_torch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    import safetensors.torch

    value = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)) * 9
    names = "float64 float32 float16 bfloat16 int64 int32 int8 uint8 bool"
    state = {name: value.to(getattr(torch, name)) for name in names.split()}
    safetensors.torch.save_file(state, tmp_path / "a", {"format": "pt"})
    file = SafetensorsFile(tmp_path / "a")
    for name, expected in state.items():
        if name in ("float16", "bfloat16"):
            expected = expected.float()
        np.testing.assert_array_equal(file[name], expected.numpy())


@pytest.mark.peer
def test_torch_reads_what_is_written(tmp_path):
    pytest.importorskip("torch")
    import safetensors.torch

    tensors = some_tensors()
    write_safetensors(tmp_path / "a", tensors, {"format": "pt"})
    read = safetensors.torch.load_file(tmp_path / "a")
    assert set(read) == set(tensors)
    for name, value in tensors.items():
        np.testing.assert_array_equal(read[name].numpy(), value)


def test_one_tensor_at_a_time_is_in_memory(tmp_path):
    size, nbytes = 1 << 18, 1 << 20
    made = []

    def make(i):
        made.append(i)
        return np.full(size, i, np.float32)

    tensors = {
        str(i): LazyTensor((size,), np.float32, lambda i=i: make(i))
        for i in range(6)
    }
    tracemalloc.start()
    try:
        write_safetensors(tmp_path / "a", tensors)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * nbytes
        assert made == list(range(6))
        tracemalloc.reset_peak()
        file = SafetensorsFile(tmp_path / "a")
        assert tracemalloc.get_traced_memory()[1] < nbytes / 4
        for name in file:
            assert file[name][-1] == int(name)
        assert tracemalloc.get_traced_memory()[1] < 2.5 * nbytes
    finally:
        tracemalloc.stop()


def test_layout_and_byte_order_do_not_matter(tmp_path):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    views = {
        "turned": values.T,
        "big": values.astype(">f4"),
        "part": values[:, ::2],
    }
    write_safetensors(tmp_path / "a", views)
    file = SafetensorsFile(tmp_path / "a")
    for name, value in views.items():
        np.testing.assert_array_equal(file[name], value)


def test_a_failed_writing_leaves_the_old_file(tmp_path):
    def fail():
        raise KeyboardInterrupt

    path = tmp_path / "a"
    write_safetensors(path, {"a": np.zeros(2)})
    before = path.read_bytes()
    tensors = {"a": np.ones(3), "b": LazyTensor((2,), np.float32, fail)}
    with pytest.raises(KeyboardInterrupt):
        write_safetensors(path, tensors)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({"a": np.zeros(2, np.complex64)}, "'a'.*type complex64; .*float32"),
        ({"a": np.array(["x"])}, "'a'.*type str"),
        ({"__metadata__": np.zeros(2)}, "reserved"),
        (
            {"a": LazyTensor((3,), np.float32, lambda: np.zeros(2, "f4"))},
            r"'a'.* announced as float32 \[3\] and is float32 \[2\]",
        ),
        (
            {"a": LazyTensor((2,), np.float32, lambda: np.zeros(2))},
            "announced as float32 .* is float64",
        ),
    ],
)
def test_what_cannot_be_written(tmp_path, tensors, match):
    with pytest.raises(ValueError, match=match):
        write_safetensors(tmp_path / "a", tensors)
    assert not os.listdir(tmp_path)


def test_a_file_cut_off_anywhere_is_told(tmp_path):
    path = tmp_path / "a"
    write_safetensors(path, {"a": np.zeros((4, 5)), "b": np.ones(3)})
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(InputError) as error:
            SafetensorsFile(path)
        assert "\n" not in str(error.value)
    assert f"({size} of {size + 1} bytes)" in str(error.value)
    assert "copy or download it again" in str(error.value)


@pytest.mark.parametrize(
    "entries",
    [
        {"a": entry(0, 8, [2]), "b": entry(4, 12, [2])},  # overlap
        {"a": entry(0, 8, [2]), "b": entry(12, 20, [2])},  # gap
        {"a": entry(0, 8, [3])},
        {"a": entry(0, 20, [5])},
        {"a": entry(8, 0, [2])},
        {"a": entry(0, 8, [-2])},
        {"a": entry(0, 8, [2], "F33")},
        {"a": {"dtype": "F32"}},
        {"a": 3},
        {"a": entry(0, 0, [1 << 62, 1 << 62])},
    ],
)
def test_headers_that_contradict_are_told(tmp_path, entries):
    path = raw_file(tmp_path / "a", entries, bytes(12))
    with pytest.raises(InputError, match="damaged or incomplete") as error:
        SafetensorsFile(path)
    assert "\n" not in str(error.value)


def test_random_damage_is_read_or_told(tmp_path):
    path = tmp_path / "a"
    write_safetensors(path, {"a": np.zeros((4, 5)), "b": np.ones(3)})
    content = np.frombuffer(path.read_bytes(), np.uint8)
    header = 8 + int.from_bytes(content[:8].tobytes(), "little")
    random = np.random.default_rng(0)
    told = 0
    for _ in range(300):
        damaged = content.copy()
        where = random.integers(0, header, random.integers(1, 3))
        damaged[where] = random.integers(0, 256, where.size)
        path.write_bytes(damaged.tobytes())
        try:
            file = SafetensorsFile(path)
            for name in file:
                assert file[name].shape == file.shape(name)
        except InputError:
            told += 1
    assert told > 150


@pytest.mark.parametrize("code", ["F8_E4M3", "C64"])
def test_types_that_are_no_plain_numbers_are_refused(tmp_path, code):
    size = 8 if code == "C64" else 1
    entries = {"weight": entry(0, 2 * size, [2], code)}
    path = raw_file(tmp_path / "a", entries, bytes(2 * size))
    with pytest.raises(InputError, match=f"weight holds {code} numbers"):
        SafetensorsFile(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "an empty file, not a safetensors file"),
        (b"<!doctype html>", "an HTML page, not a safetensors file; the down"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"PK\x03\x04", "a zip archive, not a safetensors file"),
    ],
)
def test_other_files_are_told(tmp_path, content, match):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=match):
        SafetensorsFile(path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        SafetensorsFile(path)


def test_no_framework_is_imported(tmp_path):
    path = raw_file(tmp_path / "a", {"a": entry(0, 4, [2], "BF16")}, bytes(4))
    program = (
        "import sys\n"
        "from albert_tf.interop.files.safetensors_file import SafetensorsFile\n"
        f"dict(SafetensorsFile({str(path)!r}))\n"
        "found = {'torch', 'tensorflow', 'keras', 'ml_dtypes'}\n"
        "sys.exit(found & set(sys.modules) or None)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
