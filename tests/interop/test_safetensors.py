import json
import os
import stat

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from albert_tf.errors import InputError
from albert_tf.interop.huggingface import open_safetensors
from albert_tf.interop.safetensors_file import save_safetensors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def raw_file(path, dtype, shape, data):
    """Writes a file with a tensor that the library does not support."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}
    header = json.dumps({"weight": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def test_reads_what_the_library_writes(path):
    random = np.random.default_rng(0)
    tensors = {
        dtype: (random.normal(size=(2, 3)) * 9).astype(dtype)
        for dtype in ("f8", "f4", "f2", "i8", "i4", "u1", "b1")
    }
    tensors["scalar"] = np.array(2.5, np.float32)
    tensors["empty"] = np.zeros((0, 3), np.float32)
    save_file(tensors, path, {"format": "pt"})
    file = open_safetensors(path)
    assert sorted(file.shapes) == sorted(tensors)
    for name, value in tensors.items():
        array = file.read(name)
        assert file.shapes[name] == array.shape == value.shape
        assert array.dtype == (np.float32 if name == "f2" else value.dtype)
        np.testing.assert_array_equal(array, value)


def test_bfloat16_is_read_as_float32(path):
    values = np.array([[1.5, -0.0, np.inf], [3e38, 1e-40, -2.0]])
    values = values.astype(ml_dtypes.bfloat16)
    raw_file(path, "BF16", [2, 3], values.tobytes())
    array = open_safetensors(path).read("weight")
    assert array.dtype == np.float32
    assert array.tobytes() == values.astype(np.float32).tobytes()


def test_a_damaged_file_is_an_input_error(path):
    save_file({"a": np.zeros((4, 5)), "b": np.ones(3)}, path)
    content = path.read_bytes()
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        with pytest.raises(InputError) as error:
            open_safetensors(path)
        assert "\n" not in str(error.value)
    header = 8 + int.from_bytes(content[:8], "little")
    random = np.random.default_rng(0)
    for _ in range(200):
        damaged = np.frombuffer(content, np.uint8).copy()
        damaged[random.integers(0, header, 2)] = random.integers(0, 256, 2)
        path.write_bytes(damaged.tobytes())
        try:
            file = open_safetensors(path)
            for name, shape in file.shapes.items():
                assert file.read(name).shape == shape
        except InputError:
            pass


@pytest.mark.parametrize("dtype", ["F8_E4M3", "C64"])
def test_other_dtypes_are_errors(path, dtype):
    size = 8 if dtype == "C64" else 1
    raw_file(path, dtype, [2], bytes(2 * size))
    with pytest.raises(InputError, match=f"weight holds {dtype} numbers"):
        open_safetensors(path)


def test_equal_tensors_are_equal_files(path):
    """The library writes the metadata in random order."""
    tensors = {"a": np.ones((2, 3), np.float32), "é": np.zeros(5, np.float16)}
    contents = set()
    for _ in range(20):
        save_safetensors(tensors, path, {"format": "pt", "é": '"'})
        contents.add(path.read_bytes())
    assert len(contents) == 1
    for name, array in tensors.items():
        np.testing.assert_array_equal(open_safetensors(path).read(name), array)


def test_others_may_read_what_the_umask_lets_them(path):
    before = os.umask(0o027)
    try:
        save_safetensors({"a": np.ones(3, np.float32)}, path, {"format": "pt"})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
