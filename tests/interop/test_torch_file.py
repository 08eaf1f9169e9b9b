import collections
import io
import pathlib
import pickle
import zipfile

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.torch_file import open_torch_file

DATA = pathlib.Path(__file__).parent / "data"
STORED = ["torch_zip.bin", "torch_legacy.bin"]
V2 = ("torch._utils", "_rebuild_tensor_v2")


class Name:
    """Pickled as a reference to a name, like torch's storage classes."""

    def __init__(self, module, name):
        self.path = (module, name)


class Call:
    """Pickled as a call of a name, and a state for the result."""

    def __init__(self, module, name, *arguments, state=None):
        self.function = Name(module, name)
        self.arguments = arguments
        self.state = state


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
            if item.state is not None:
                self.save(item.state)
                self.write(pickle.BUILD)
        else:
            super().save(item, *arguments, **options)


def dumps(item):
    file = io.BytesIO()
    Pickler(file, 2).dump(item)
    return file.getvalue()


def tensor(storage=None, offset=0, shape=(2, 3), strides=(3, 1), state=None):
    arguments = (storage or Storage(), offset, shape, strides, False, {})
    return Call(*V2, *arguments, state=state)


def fill(content):
    """Replaces each 1 by a tensor."""
    if isinstance(content, dict):
        return {key: fill(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return type(content)(fill(value) for value in content)
    return tensor() if content == 1 else content


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


def write_zip(path, pickled, data=None, byteorder=None):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        if byteorder:
            archive.writestr("archive/byteorder", byteorder)
        for key, content in (data or {}).items():
            archive.writestr(f"archive/data/{key}", content)
    return path


def write_legacy(path, state, data, keys=None):
    pickles = [0x1950A86A20F9469CFC6C, 1001, {}, state, keys or [*data]]
    content = b"".join(dumps(item) for item in pickles)
    for values in data.values():
        content += len(values).to_bytes(8, "little") + values.tobytes()
    path.write_bytes(content)
    return path


DATA_0 = {"0": np.arange(6, dtype="<f4").tobytes()}


@pytest.mark.parametrize("name", STORED)
def test_stored_files_are_readable(name):
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


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
@pytest.mark.parametrize("name", STORED)
def test_a_damaged_file_is_read_or_an_input_error(name, path):
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


def test_big_endian_archives(path):
    data = {"0": np.arange(6).astype(">f4").tobytes()}
    write_zip(path, dumps({"a": tensor()}), data, "big")
    value = open_torch_file(path).read("a")
    np.testing.assert_array_equal(value, np.arange(6.0).reshape(2, 3))
    assert value.dtype.isnative


def test_storage_views_of_the_legacy_format(path):
    view = Storage(view=(("9", 2, 3),))
    state = {
        "whole": tensor(Storage(view=(None,))),
        "view": tensor(view, 1, (2,), (1,)),
    }
    data = {"0": np.arange(6, dtype="<f4")}
    file = open_torch_file(write_legacy(path, state, data))
    np.testing.assert_array_equal(file.read("whole").ravel(), np.arange(6))
    np.testing.assert_array_equal(file.read("view"), [3, 4])
    for wrong, match in (
        (tensor(view, 1, (3,), (1,)), "exceeds its storage"),
        (tensor(Storage(view=(("9", 5, 3),))), "view exceeds storage"),
    ):
        with pytest.raises(InputError, match=match):
            open_torch_file(write_legacy(path, {"a": wrong}, data))


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        (["0", "1"], "a storage that no tensor uses"),
        ([()], "a storage that no tensor uses"),
        ({"0": 0}, "no list of storages"),
        (["0", "0"], "bytes"),
    ],
)
def test_invalid_storage_lists_of_the_legacy_format(path, keys, match):
    data = {"0": np.arange(6, dtype="<f4")}
    write_legacy(path, {"a": tensor()}, data, keys)
    with pytest.raises(InputError, match=match):
        open_torch_file(path)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"a": 1, "step": 7}, ["a"]),
        ({"model": {"a": 1, "n": 5}, "args": {}}, ["a"]),
        ({"model": {"a": 1}, "optimizer": {"state": {0: {"m": 1}}}}, ["a"]),
        # An ordered dictionary written by Python 2.
        (Call("collections", "OrderedDict", [["a", tensor()]]), ["a"]),
        ({"model": {"a": 1}, "ema": {"a": 1}}, "tensors: model, ema;"),
        ({"a": 1, "optimizer": {"state": [1]}}, "optimizer contains nested"),
        ({"model": {"a": 1, "b": (1,)}}, "entry b contains nested tensors"),
        ({"model": {"deep": {"a": 1}}}, "no dictionary of tensors"),
        ({}, "no dictionary of tensors"),
        ([1], "no dictionary of tensors"),
        ({3: 1}, "name of a tensor is 3, expected a string"),
    ],
)
def test_the_dictionary_of_tensors_is_found(path, content, names):
    write_zip(path, dumps(fill(content)), DATA_0)
    if isinstance(names, str):
        with pytest.raises(InputError, match=names):
            open_torch_file(path)
    else:
        assert list(open_torch_file(path).shapes) == names


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("os", "system"),
        ("torch", "load"),
        ("torch._utils", "_rebuild_qtensor"),
        ("torch", "ComplexFloatStorage"),
        ("torch.jit", "FloatStorage"),
        ("collections", "OrderedDict.fromkeys"),
        ("torch.nn.modules.linear", "Linear"),
    ],
)
def test_other_names_are_not_allowed(tmp_path, path, name, legacy):
    mark = tmp_path / "executed"
    state = {"a": Call(*name, f"open({str(mark)!r}, 'w')"), "b": tensor()}
    if legacy:
        write_legacy(path, state, {"0": np.zeros(6, "<f4")})
    else:
        write_zip(path, dumps(state), DATA_0)
    with pytest.raises(InputError, match="no code was executed") as error:
        open_torch_file(path)
    assert f"asks for {'.'.join(name)}," in str(error.value)
    assert not mark.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_code_in_pickles_is_not_executed(tmp_path, path, protocol):
    class Hostile:
        def __reduce__(self):
            return open, (str(tmp_path / "executed"), "w")

    for item in (Hostile(), {"a": Hostile()}, [collections.deque()]):
        write_zip(path, pickle.dumps(item, protocol))
        with pytest.raises(InputError, match="no code was executed"):
            open_torch_file(path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("item", "match"),
    [
        (tensor(shape=(2, 4)), "exceeds its storage"),
        (tensor(offset=1), "exceeds its storage"),
        (tensor(strides=(4, 1)), "exceeds its storage"),
        (tensor(offset=-1), "describes a ten"),
        (tensor(offset=1.0), "describes a ten"),
        (tensor(strides=(-3, 1)), "describes a ten"),
        (tensor(strides=(1,)), "describes a ten"),
        (tensor(shape=[2, 3]), "describes a ten"),
        (tensor(shape=(1 << 40, 1 << 40), strides=(0, 0)), "describes a ten"),
        (tensor(shape=(1,) * 33, strides=(1,) * 33), "describes a ten"),
        (tensor(Storage(size=-6)), "has -6 items"),
        (tensor(Storage(size=7), 1), "a is truncated"),
        (tensor(Storage(key="1")), "a is truncated"),
        (tensor(Storage(kind="Storage")), "asks for torch.Storage"),
        (tensor(Storage(size="6")), "describes a storage"),
        (tensor(Storage(view=(3,))), "exceeds storage 0"),
        (tensor(7), "describes a ten"),
        (Call(*V2), "damaged"),
        (Call("collections", "OrderedDict", [5]), "damaged"),
        (Call("torch", "FloatStorage", 1 << 60), "damaged"),
        (Call("torch._utils", "_rebuild_parameter", 1, 2, 3), "parameter"),
        # Validated tensors and functions cannot be modified.
        (tensor(state={"shape": (1 << 30,)}), "damaged"),
        (tensor(state=(None, {"shape": (1 << 30,)})), "damaged"),
    ],
)
def test_invalid_tensors_are_errors(path, item, match):
    write_zip(path, dumps({"a": item}), DATA_0)
    with pytest.raises(InputError, match=match):
        open_torch_file(path)


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b"\x80\x02}",
        b"\x80\x02tR.",
        b"\x80\x02h\x07.",
        b"\x80\x02NNR.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02ios\nsystem\n.",
        b"\x80\x02ctorch\nfloat32\n}X\x01\x00\x00\x00aNsb.",
        b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00aNsb.",
        # Small pickles that would exhaust memory or the stack.
        b"\x80\x02}r\xff\xff\xff\xff.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
        b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",
        b"\x80\x02]q\x00" + b"(h\x00" * 50_000 + b"e" * 50_000 + b".",
        b"\x80\x02ccollections\nOrderedDict\nq\x00]("
        + b"]q\x01(" + b"N)\x86" * 5_000 + b"e"
        + b"h\x00h\x01\x85R" * 5_000 + b"e.",
    ],
)  # fmt: skip
def test_invalid_pickles_are_errors(path, pickled):
    write_zip(path, pickled)
    with pytest.raises(InputError):
        open_torch_file(path)


def test_repacked_archives_and_torchscript_are_errors(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", dumps({"a": tensor()}))
    with pytest.raises(InputError, match="repacked .*compressed"):
        open_torch_file(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", dumps({"a": tensor()}))
        archive.writestr("a/constants.pkl", b"")
    with pytest.raises(InputError, match="TorchScript program"):
        open_torch_file(path)


@pytest.mark.peer
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("legacy", [False, True])
def test_equals_torch_load(path, legacy, protocol):
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
    torch.save({"model": state, "epoch": 1}, path, **options)
    file = open_torch_file(path)
    assert list(file.shapes) == list(state)
    for name, value in state.items():
        value = value.detach()
        if value.dtype in (torch.float16, torch.bfloat16):
            value = value.float()
        value, array = value.numpy(), file.read(name)
        assert array.dtype == value.dtype
        assert file.shapes[name] == value.shape
        assert array.tobytes() == value.tobytes()


@pytest.mark.peer
@pytest.mark.parametrize("legacy", [False, True])
def test_reads_modules_and_training_checkpoints(path, legacy):
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
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    file = open_torch_file(path)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(file.read(name), value.numpy())
    torch.save(model, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(InputError, match="asks for torch.nn.modules"):
        open_torch_file(path)


@pytest.mark.peer
@pytest.mark.parametrize("kind", ["quantized", "sparse", "complex", "negated"])
def test_refuses_tensors_that_are_not_plain_numbers(path, kind):
    torch = pytest.importorskip("torch")
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
