import collections
import io
import pathlib
import pickle
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.files.torch_file import read_torch_file

DATA = pathlib.Path(__file__).parents[1] / "data"
STORED = ["torch_zip.bin", "torch_legacy.bin"]
MAGIC = 0x1950A86A20F9469CFC6C


class Name:
    """Pickled as a reference to a name, as torch's storage classes are."""

    def __init__(self, module, name):
        self.path = (module, name)


class Call:
    """Pickled as a call of a name."""

    def __init__(self, module, name, *arguments):
        self.function = Name(module, name)
        self.arguments = arguments


class Storage:
    def __init__(self, key="0", size=6, kind="FloatStorage", view=()):
        self.identity = ("storage", Name("torch", kind), key, "cpu", size)
        self.identity += view


class Pickler(pickle._Pickler):
    def persistent_id(self, item):
        return item.identity if isinstance(item, Storage) else None

    def save(self, item, *arguments, **options):
        if isinstance(item, Name):
            module, name = item.path
            self.write(f"c{module}\n{name}\n".encode())
        elif isinstance(item, Call):
            self.save(item.function)
            self.save(item.arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(item, *arguments, **options)


def dumps(item):
    file = io.BytesIO()
    Pickler(file, 2).dump(item)
    return file.getvalue()


def tensor(storage=None, offset=0, shape=(2, 3), strides=(3, 1)):
    name = ("torch._utils", "_rebuild_tensor_v2")
    storage = storage or Storage()
    return Call(*name, storage, offset, shape, strides, False, {})


def write_zip(path, pickled, data=None, byteorder=None, folder="archive"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{folder}/data.pkl", pickled)
        if byteorder:
            archive.writestr(f"{folder}/byteorder", byteorder)
        for key, content in (data or {}).items():
            archive.writestr(f"{folder}/data/{key}", content)
    return path


def numbers(dtype="<f4", count=6):
    return np.arange(count).astype(dtype).tobytes()


def expected_state():
    base = np.arange(24, dtype=np.float32) / 4 - 2
    matrix = base.reshape(4, 6)
    return {
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


@pytest.mark.parametrize("name", STORED)
def test_a_stored_file_of_each_format_stays_readable(name):
    file = read_torch_file(DATA / name)
    expected = expected_state()
    assert list(file) == list(expected)
    assert len(file) == len(expected)
    assert file.left_out == ("epoch", "note")
    for key, value in expected.items():
        assert key in file
        assert file.shape(key) == value.shape
        assert file.dtype(key) == file[key].dtype == value.dtype
        np.testing.assert_array_equal(file[key], value)
    assert "absent" not in file
    with pytest.raises(KeyError):
        file["absent"]


@pytest.mark.parametrize("name", STORED)
def test_a_file_cut_off_anywhere_is_told(name, tmp_path):
    content = (DATA / name).read_bytes()
    path = tmp_path / name
    for size in range(0, len(content) - 1, 97):
        path.write_bytes(content[:size])
        with pytest.raises(InputError) as error:
            read_torch_file(path)
        assert "\n" not in str(error.value)
    assert "damaged or incomplete" in str(error.value)


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
@pytest.mark.parametrize("name", STORED)
def test_random_damage_is_read_or_told(name, tmp_path):
    content = np.frombuffer((DATA / name).read_bytes(), np.uint8)
    # Most of the file is numbers: aim at what has structure.
    structure = np.r_[: min(2800, content.size), -1600:0]
    random = np.random.default_rng(0)
    path = tmp_path / name
    told = 0
    for _ in range(300):
        damaged = content.copy()
        where = random.choice(structure, random.integers(1, 4))
        damaged[where] = random.integers(0, 256, where.size)
        path.write_bytes(damaged.tobytes())
        try:
            file = read_torch_file(path)
            for key in file:
                assert file[key].shape == file.shape(key)
        except InputError:
            told += 1
    assert told > 50


@pytest.mark.parametrize("name", STORED)
def test_no_framework_is_imported(name):
    program = (
        "import sys\n"
        "from albert_tf.interop.files.torch_file import read_torch_file\n"
        f"dict(read_torch_file({str(DATA / name)!r}))\n"
        "found = {'torch', 'tensorflow', 'keras', 'ml_dtypes'}\n"
        "sys.exit(found & set(sys.modules) or None)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_one_tensor_at_a_time_is_in_memory(tmp_path):
    size = 1 << 18
    state = {
        str(i): tensor(Storage(str(i), size), shape=(size,), strides=(1,))
        for i in range(6)
    }
    data = {str(i): numbers(count=size) for i in range(6)}
    path = write_zip(tmp_path / "a.bin", dumps(state), data)
    del data
    tracemalloc.start()
    try:
        file = read_torch_file(path)
        assert tracemalloc.get_traced_memory()[1] < size
        for key in file:
            assert file[key][-1] == size - 1
        assert tracemalloc.get_traced_memory()[1] < 2 * 4 * size
    finally:
        tracemalloc.stop()


def test_big_endian_archives(tmp_path):
    pickled = dumps({"a": tensor()})
    path = write_zip(tmp_path / "a.bin", pickled, {"0": numbers(">f4")}, "big")
    value = read_torch_file(path)["a"]
    np.testing.assert_array_equal(value, np.arange(6.0).reshape(2, 3))
    assert value.dtype.isnative


def test_an_empty_tensor_needs_no_storage(tmp_path):
    state = {"a": tensor(Storage(size=0), 9, (0, 3))}
    file = read_torch_file(write_zip(tmp_path / "a.bin", dumps(state)))
    assert file["a"].shape == (0, 3)


def write_legacy(path, state, data, keys=None):
    pickles = [MAGIC, 1001, {"little_endian": True}, state, keys or [*data]]
    content = b"".join(dumps(item) for item in pickles)
    for values in data.values():
        content += len(values).to_bytes(8, "little") + values.tobytes()
    path.write_bytes(content)
    return path


def test_storage_views_of_the_old_format(tmp_path):
    whole, view = Storage(view=(None,)), Storage(view=(("9", 2, 3),))
    state = {
        "whole": tensor(whole),
        "view": tensor(view, 1, (2,), (1,)),
    }
    data = {"0": np.arange(6, dtype="<f4")}
    file = read_torch_file(write_legacy(tmp_path / "a.bin", state, data))
    np.testing.assert_array_equal(file["whole"].ravel(), np.arange(6))
    np.testing.assert_array_equal(file["view"], [3, 4])
    state["view"] = tensor(view, 1, (3,), (1,))
    write_legacy(tmp_path / "a.bin", state, data)
    with pytest.raises(InputError, match="beyond its storage"):
        read_torch_file(tmp_path / "a.bin")
    state["view"] = tensor(Storage(view=(("9", 5, 3),)), 0, (2,), (1,))
    write_legacy(tmp_path / "a.bin", state, data)
    with pytest.raises(InputError, match="view reaches beyond storage 0"):
        read_torch_file(tmp_path / "a.bin")


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        (["0", "1"], "a storage that no tensor uses"),
        ([()], "a storage that no tensor uses"),
        ({"0": 0}, "no list of storages"),
        (["0", "0"], "bytes"),
    ],
)
def test_wrong_storage_lists_of_the_old_format(tmp_path, keys, match):
    data = {"0": np.arange(6, dtype="<f4")}
    path = write_legacy(tmp_path / "a.bin", {"a": tensor()}, data, keys)
    with pytest.raises(InputError, match=match):
        read_torch_file(path)


def test_python_2_wrote_ordered_dictionaries_as_lists(tmp_path):
    pairs = [["a", tensor()]]
    pickled = dumps(Call("collections", "OrderedDict", pairs))
    path = write_zip(tmp_path / "a.bin", pickled, {"0": numbers()})
    assert list(read_torch_file(path)) == ["a"]


@pytest.mark.parametrize(
    ("content", "read", "left"),
    [
        ({"a": 1}, ["a"], []),
        ({"a": 1, "step": 7}, ["a"], ["step"]),
        ({"state_dict": {"a": 1, "b": 1}}, ["a", "b"], []),
        ({"model": {"a": 1, "n": 5}, "args": {}}, ["a"], ["args", "model/n"]),
        (
            {"model": {"a": 1}, "optimizer": {"state": {0: {"m": 1}}}},
            ["a"],
            ["optimizer"],
        ),
    ],
)
def test_the_dictionary_of_tensors_is_found(tmp_path, content, read, left):
    pickled = dumps(fill(content))
    path = write_zip(tmp_path / "a.bin", pickled, {"0": numbers()})
    file = read_torch_file(path)
    assert (list(file), list(file.left_out)) == (read, left)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"model": {"a": 1}, "ema": {"a": 1}}, "tensors: model, ema;"),
        ({"a": 1, "optimizer": {"state": [1]}}, "within its entry optimizer;"),
        ({"model": {"a": 1, "b": (1,)}}, "within its entry model/b;"),
        ({"model": {"deep": {"a": 1}}}, "no dictionary of tensors"),
        ({"epoch": 3}, "no dictionary of tensors"),
        ({}, "no dictionary of tensors"),
        ([1], "no dictionary of tensors"),
        (1, "no dictionary of tensors"),
        ({3: 1}, "name is 3 and not a text"),
    ],
)
def test_what_is_no_one_dictionary_of_tensors(tmp_path, content, match):
    pickled = dumps(fill(content))
    path = write_zip(tmp_path / "a.bin", pickled, {"0": numbers()})
    with pytest.raises(InputError, match=match):
        read_torch_file(path)


def fill(content):
    """Puts a tensor in place of each 1."""
    if isinstance(content, dict):
        return {key: fill(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return type(content)(fill(value) for value in content)
    return tensor() if content == 1 else content


@pytest.mark.parametrize(
    "name",
    [
        ("builtins", "eval"),
        ("os", "system"),
        ("posix", "system"),
        ("torch", "load"),
        ("torch._utils", "_rebuild_qtensor"),
        ("torch._utils", "_rebuild_sparse_tensor"),
        ("torch", "ComplexFloatStorage"),
        ("torch.jit", "FloatStorage"),
        ("collections", "OrderedDict.fromkeys"),
        ("torch.nn.modules.linear", "Linear"),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_no_other_name_is_resolved(tmp_path, name, legacy):
    mark = tmp_path / "executed"
    state = {"a": Call(*name, f"open({str(mark)!r}, 'w')"), "b": tensor()}
    path = tmp_path / "a.bin"
    if legacy:
        write_legacy(path, state, {"0": np.zeros(6, "<f4")})
    else:
        write_zip(path, dumps(state), {"0": numbers()})
    with pytest.raises(InputError) as error:
        read_torch_file(path)
    assert f"asks for {'.'.join(name)}," in str(error.value)
    assert "no code was executed" in str(error.value)
    assert not mark.exists()


def test_plain_pickles_run_nothing_either(tmp_path):
    class Hostile:
        def __reduce__(self):
            return open, (str(tmp_path / "executed"), "w")

    for protocol in range(2, 6):
        for item in (Hostile(), {"a": Hostile()}, [collections.deque()]):
            pickled = pickle.dumps(item, protocol)
            path = write_zip(tmp_path / "a.bin", pickled)
            with pytest.raises(InputError, match="no code was executed"):
                read_torch_file(path)
    assert not (tmp_path / "executed").exists()


V2 = ("torch._utils", "_rebuild_tensor_v2")


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (tensor(shape=(2, 4)), "beyond its storage"),
        (tensor(offset=1), "beyond its storage"),
        (tensor(strides=(4, 1)), "beyond its storage"),
        (tensor(offset=-1), "shape is not told"),
        (tensor(offset=1.0), "shape is not told"),
        (tensor(strides=(-3, 1)), "shape is not told"),
        (tensor(strides=(1,)), "shape is not told"),
        (tensor(shape=[2, 3]), "shape is not told"),
        (tensor(shape=(1 << 40, 1 << 40), strides=(0, 0)), "is not told"),
        (tensor(shape=(1,) * 33, strides=(1,) * 33), "shape is not told"),
        (tensor(Storage(size=-6)), "has -6 items"),
        (tensor(Storage(size=7), 1), "a is cut off"),
        (tensor(Storage(key="1")), "a is cut off"),
        (tensor(Storage(kind="float32")), "no kind of storage"),
        (tensor(Storage(size="6")), "storage is not told"),
        (tensor(Storage(view=(3,))), "storage is not told"),
        (tensor(7), "shape is not told"),
        (Call(*V2), "wrong arguments"),
        (Call(*V2, 1, 2, 3), "wrong arguments"),
        (Call(*V2, *"abcdef"), "shape is not told"),
        (Call("collections", "OrderedDict", 5), "wrong arguments"),
        (Call("collections", "OrderedDict", [5]), "made of no pairs"),
        (Call("collections", "OrderedDict", [[1]]), "no dictionary"),
        (Call("torch", "FloatStorage", 1 << 60), "wrong arguments"),
        (Call("torch._utils", "_rebuild_parameter", 1, 2, 3), "wrong arg"),
        ({(): 1}, "keys that are no texts"),
    ],
)
def test_wrong_tensors_are_refused(tmp_path, item, match):
    pickled = dumps({"a": item})
    path = write_zip(tmp_path / "a.bin", pickled, {"0": numbers()})
    with pytest.raises(InputError, match=match):
        read_torch_file(path)


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02.",
        b"\x80\x02}",
        b"\x80\x02}(u",
        b"\x80\x02u.",
        b"\x80\x02tR.",
        b"\x80\x02h\x07.",
        b"\x80\x02}Nb.",
        b"\x80\x02NNb.",
        b"\x80\x02NNR.",
        b"\x80\x02Na.",
        b"\x80\x02NQ.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02ios\nsystem\n.",
        b"\xff\xff",
        b"",
        b"\x80\x02}r\xff\xff\xff\xff.",  # memory, in Python's unpickler
        b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",  # the stack, likewise
        b"\x80\x02]q\x00" + b"(h\x00" * 50_000 + b"e" * 50_000 + b".",
    ],
)
def test_wrong_pickles_are_refused(tmp_path, pickled):
    path = write_zip(tmp_path / "a.bin", pickled)
    with pytest.raises(InputError):
        read_torch_file(path)


def test_archives_packed_anew_and_programs_are_told(tmp_path):
    path = tmp_path / "a.bin"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", dumps({"a": tensor()}))
        archive.writestr("a/data/0", numbers())
    with pytest.raises(InputError, match="packed anew .*compressed"):
        read_torch_file(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", dumps({"a": tensor()}))
        archive.writestr("a/constants.pkl", b"")
    with pytest.raises(InputError, match="TorchScript program"):
        read_torch_file(path)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "empty file"),
        (b"<!DOCTYPE html><html>", "HTML page, not a PyTorch weights file"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (pickle.dumps({"a": 1}), "Python pickle, not"),
    ],
)
def test_other_files_are_told(tmp_path, content, match):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=match):
        read_torch_file(path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        read_torch_file(path)


@pytest.mark.peer
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("legacy", [False, True])
def test_equals_torch_load(tmp_path, legacy, protocol):
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(4, 6, 5, generator=generator)
    state = collections.OrderedDict()
    for dtype in (
        "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 "
        "uint32 uint64 bool"
    ).split():
        value = (base * 50).abs().to(getattr(torch, dtype))
        state[dtype] = value
        state[f"{dtype}_tied"] = value
        state[f"{dtype}_transposed"] = value.permute(2, 0, 1)
        state[f"{dtype}_slice"] = value[1:, ::2, 3]
        state[f"{dtype}_expanded"] = value[:1].expand(3, 6, 5)
        state[f"{dtype}_scalar"] = value[2, 1, 3]
        state[f"{dtype}_empty"] = value[:0]
        state[f"{dtype}_nothing"] = torch.zeros(0, 2, dtype=value.dtype)
    state["special"] = torch.tensor(
        [np.inf, -np.inf, np.nan, -0.0, 1e-40, 3e38]
    ).bfloat16()
    state["parameter"] = torch.nn.Parameter(base)
    state["with_state"] = torch.nn.Parameter(base)
    state["with_state"].note = "kept"
    options = {
        "_use_new_zipfile_serialization": not legacy,
        "pickle_protocol": protocol,
    }
    torch.save({"model": state, "epoch": 1}, tmp_path / "a.bin", **options)
    file = read_torch_file(tmp_path / "a.bin")
    assert list(file) == list(state)
    for name, value in state.items():
        value = value.detach()
        if value.dtype in (torch.float16, torch.bfloat16):
            value = value.float()
        value = value.numpy()
        assert file.dtype(name) == file[name].dtype == value.dtype
        assert file.shape(name) == value.shape
        assert file[name].tobytes() == value.tobytes()


@pytest.mark.peer
@pytest.mark.parametrize("legacy", [False, True])
def test_reads_modules_and_training_checkpoints(tmp_path, legacy):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 1,
    }
    path = tmp_path / "a.bin"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    file = read_torch_file(path)
    assert file.left_out == ("optimizer", "step")
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(file[name], value.numpy())
    torch.save(model, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(InputError, match="asks for torch.nn.modules"):
        read_torch_file(path)


@pytest.mark.peer
@pytest.mark.parametrize("kind", ["quantized", "sparse", "complex", "negated"])
def test_refuses_tensors_that_are_not_plain_numbers(tmp_path, kind):
    torch = pytest.importorskip("torch")
    value = {
        "quantized": lambda: torch.quantize_per_tensor(
            torch.ones(3), 0.1, 0, torch.qint8
        ),
        "sparse": lambda: torch.eye(3).to_sparse(),
        "complex": lambda: torch.ones(3, dtype=torch.complex64),
        "negated": lambda: torch._neg_view(torch.ones(3)),
    }[kind]()
    torch.save({"a": value}, tmp_path / "a.bin")
    with pytest.raises(InputError, match="save the tensors alone"):
        read_torch_file(tmp_path / "a.bin")
