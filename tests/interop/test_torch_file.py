import collections
import importlib
import os
import pathlib
import zipfile

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.torch_file import open_torch_file

pytestmark = pytest.mark.peer

DATA = pathlib.Path(__file__).parent / "data"
STORED = ["torch_zip.bin", "torch_legacy.bin"]


@pytest.fixture
def torch():
    """PyTorch, which `make test-peers` installs."""
    return importlib.import_module("torch")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


@pytest.mark.parametrize("name", STORED)
def test_stored_files_are_readable(torch, name):
    base = np.arange(24, dtype=np.float32) / 4 - 2
    matrix = base.reshape(4, 6)
    expected = {
        "matrix": matrix,
        "tied": matrix,
        "transposed": matrix.T,
        "slice": matrix[1:3, ::2],
        "expanded": np.full((2, 3), base[3]),
        "parameter": base[:5] * 2,
        "scalar": np.float32(7.5),
        "empty": np.zeros((0, 3), np.float32),
        "float64": base.astype(np.float64)[1:4],
        "float16": base,
        "bfloat16": base,
        "int64": np.arange(-3, 3),
        "int32": np.arange(-3, 3, dtype=np.int32),
        "uint8": np.arange(250, 256, dtype=np.uint8),
        "bool": np.array([True, False, True]),
    }
    file = open_torch_file(DATA / name)
    assert list(file.shapes) == list(expected)
    for key, value in expected.items():
        array = file.read(key)
        assert file.shapes[key] == array.shape == value.shape
        assert array.dtype == value.dtype
        np.testing.assert_array_equal(array, value)


@pytest.mark.parametrize("name", STORED)
def test_a_damaged_file_is_read_or_an_input_error(torch, name, path):
    content = np.frombuffer((DATA / name).read_bytes(), np.uint8)
    cut = [content[:size] for size in range(0, len(content) - 1, 97)]
    # Most of the file is numbers; damage the rest.
    structure = np.r_[: min(2800, content.size), -1600:0]
    random = np.random.default_rng(0)
    damaged = []
    for _ in range(200):
        where = random.choice(structure, random.integers(1, 4))
        damaged.append(content.copy())
        damaged[-1][where] = random.integers(0, 256, where.size)
    errors = []
    for version in [*cut, *damaged]:
        path.write_bytes(version.tobytes())
        try:
            file = open_torch_file(path)
            for key, shape in file.shapes.items():
                assert file.read(key).shape == shape
        except InputError as error:
            errors.append(str(error))
    assert len(errors) >= len(cut) + 30
    assert not any("\n" in error for error in errors)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"a": 1, "step": 7}, ["a"]),
        ({"model": {"a": 1, "n": 5}, "args": {}}, ["a"]),
        ({"model": {"a": 1}, "optimizer": {"state": {0: {"m": 1}}}}, ["a"]),
        ({"model": {"a": 1}, "ema": {"a": 1}}, "tensors: model, ema;"),
        ({"a": 1, "optimizer": {"state": [1]}}, "optimizer contains nested"),
        ({"model": {"a": 1, "b": (1,)}}, "entry b contains nested tensors"),
        ({"model": {"deep": {"a": 1}}}, "no dictionary of tensors"),
        ({}, "no dictionary of tensors"),
        ([1], "no dictionary of tensors"),
        ({3: 1}, "name of a tensor is 3, expected a string"),
    ],
)
def test_the_dictionary_of_tensors_is_found(torch, path, content, names):
    def fill(content):
        """Replaces each 1 by a tensor."""
        if isinstance(content, dict):
            return {key: fill(value) for key, value in content.items()}
        if isinstance(content, (list, tuple)):
            return type(content)(fill(value) for value in content)
        return torch.ones(2, 3) if content == 1 else content

    torch.save(fill(content), path)
    if isinstance(names, str):
        with pytest.raises(InputError, match=names):
            open_torch_file(path)
    else:
        assert list(open_torch_file(path).shapes) == names


class Call:
    """Pickled as a call of a function."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("is_zip", [False, True])
def test_code_in_pickles_is_not_executed(torch, path, protocol, is_zip):
    mark = path.with_name("executed")
    options = {
        "pickle_protocol": protocol,
        "_use_new_zipfile_serialization": is_zip,
    }
    for item in (
        Call(open, str(mark), "w"),
        {"a": Call(os.mkdir, str(mark)), "b": torch.ones(2)},
        {"a": Call(eval, f"open({str(mark)!r}, 'w')")},
        [collections.deque()],
        torch.nn.Linear(2, 2),
    ):
        torch.save(item, path, **options)
        with pytest.raises(InputError, match="no code was executed") as error:
            open_torch_file(path)
        assert "\n" not in str(error.value)
        assert not mark.exists()


def test_shapes_beyond_the_file_are_errors(torch, path):
    torch.save({"a": torch.ones(1).expand(1 << 20, 1 << 20)}, path)
    with pytest.raises(InputError, match="damaged or malicious"):
        open_torch_file(path)


def test_repacked_archives_torchscript_and_large_pickles_are_errors(
    torch, path
):
    torch.save({"a": torch.ones(2)}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {x.filename: archive.read(x) for x in archive.infolist()}
    [pickled] = [name for name in entries if name.endswith("data.pkl")]
    constants = {pickled.replace("data.pkl", "constants.pkl"): b""}
    for mode, extra, match in (
        (zipfile.ZIP_DEFLATED, {}, "repacked .*compressed"),
        (zipfile.ZIP_STORED, constants, "TorchScript program"),
        (zipfile.ZIP_STORED, {pickled: bytes(1 << 23)}, "its pickle takes"),
    ):
        with zipfile.ZipFile(path, "w", mode) as archive:
            for name, content in (entries | extra).items():
                archive.writestr(name, content)
        with pytest.raises(InputError, match=match):
            open_torch_file(path)


@pytest.mark.parametrize("is_zip", [False, True])
def test_reads_modules_and_training_checkpoints(torch, path, is_zip):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 1,
    }
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    file = open_torch_file(path)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(file.read(name), value.numpy())


@pytest.mark.filterwarnings("ignore")  # quantization is deprecated
@pytest.mark.parametrize("kind", ["quantized", "sparse", "complex", "negated"])
def test_refuses_tensors_that_are_not_plain_numbers(torch, path, kind):
    value = {
        "quantized": lambda: torch.quantize_per_tensor(
            torch.ones(3), 0.1, 0, torch.qint8
        ),
        "sparse": lambda: torch.eye(3).to_sparse(),
        "complex": lambda: torch.ones(3, dtype=torch.complex64),
        "negated": lambda: torch._neg_view(torch.ones(3)),
    }[kind]()
    torch.save({"a": value}, path)
    with pytest.raises(InputError, match="save the tensors alone"):
        open_torch_file(path)
