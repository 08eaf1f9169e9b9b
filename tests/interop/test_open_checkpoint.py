"""Opening by any path, and the errors, each of one line."""

import json
import shutil
import sys
import tarfile
import zipfile

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.open_checkpoint import load_tokenizer, open_checkpoint

HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>" * 9
GIT_LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2"
    b"393\nsize 47372894\n"
)
# Kind of weights -> stored folder and the file to damage.
WEIGHTS = {
    "safetensors": ("huggingface", "model.safetensors"),
    "pytorch_model.bin": ("torch_zip", "pytorch_model.bin"),
    "legacy pytorch_model.bin": ("torch_legacy", "pytorch_model.bin"),
    "KerasHub": ("keras_hub_classifier", "model.weights.h5"),
    "KerasHub's task": ("keras_hub_classifier", "task.weights.h5"),
    "TF1 index": ("google_tf1", "model.ckpt-best.index"),
    "TF1 data": ("google_tf1", "model.ckpt-best.data-00000-of-00001"),
    "TF2 index": ("model_garden", "pretrainer-1.index"),
    "TF2 data": ("model_garden", "pretrainer-1.data-00000-of-00001"),
    "run": ("albert_tf_run", "checkpoints/step-00000002.index"),
    "run data": (
        "albert_tf_run",
        "checkpoints/step-00000002.data-00000-of-00001",
    ),
}
DAMAGE = {
    "half": lambda content: content[: len(content) // 2],
    "all but the end": lambda content: content[:-40],
    "HTML": lambda content: HTML,
    "Git LFS": lambda content: GIT_LFS,
    "empty": lambda content: b"",
    "noise": lambda content: bytes(range(7, 256)) * 40,
}


def open_error(path, match=None, **arguments):
    """Opens a checkpoint, reads all arrays and returns the error message."""
    with pytest.raises(InputError, match=match) as error:
        dict(open_checkpoint(path, **arguments).arrays)
    message = str(error.value)
    assert "\n" not in message
    return message


# Without PyTorch, every error would be that it is not installed.
KINDS = [
    pytest.param(kind, marks=pytest.mark.peer if "pytorch" in kind else ())
    for kind in WEIGHTS
]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_weights(stored, tmp_path, kind, damage):
    name, file = WEIGHTS[kind]
    folder = shutil.copytree(stored / name, tmp_path / name)
    path = folder / file
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    message = open_error(folder)
    # TensorFlow checkpoints are named by their prefix.
    prefix = (
        str(path).removesuffix(".index").removesuffix(".data-00000-of-00001")
    )
    assert prefix in message
    if "TF" not in kind and "run" not in kind:
        words = {
            "HTML": "an HTML or XML page, not",
            "Git LFS": "git lfs pull",
            "empty": "an empty file, not",
        }
        assert words.get(damage, "") in message
        assert open_error(path) in (message, message.replace("weights", ""))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_archives(stored, tmp_path, damage):
    path = tmp_path / "albert_tiny.tar.gz"
    content = (stored / "google_tf1.tar.gz").read_bytes()
    path.write_bytes(DAMAGE[damage](content))
    assert str(path) in open_error(path)


def test_damage_inside_of_an_archive_names_the_archive(stored, tmp_path):
    folder = shutil.copytree(stored / "google_tf1", tmp_path / "tiny")
    data = folder / "model.ckpt-best.data-00000-of-00001"
    content = data.read_bytes()
    data.write_bytes(content[:100])
    path = tmp_path / "download"  # Archives are detected by content.
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "tiny")
    message = open_error(path, "is not a TensorFlow checkpoint, or is damaged")
    assert message.startswith(f"{path}/model.ckpt-best ")
    data.write_bytes(content)
    (folder / "albert_config.json").unlink()
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "tiny")
    message = open_error(path, "no albert_config.json beside it")
    assert message.startswith(f"{path}/model.ckpt-best: ")


@pytest.mark.parametrize("name", ["torch_zip", "torch_legacy"])
def test_without_pytorch_a_line_says_so(stored, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "torch", None)
    path = stored / name / "pytorch_model.bin"
    expected = "PyTorch, which reads this format, is not installed; .* as safet"
    assert open_error(path.parent, expected).startswith(f"{path}: ")


def test_arrays_outlive_the_call(stored):
    arrays = open_checkpoint(stored / "google_tf1.tar.gz").arrays
    assert len(dict(arrays)) == len(arrays) == 80


def test_unpacked_archives_are_deleted(stored, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    checkpoint = open_checkpoint(stored / "google_tf1.tar.gz")
    assert len(list(tmp_path.iterdir())) == 1
    del checkpoint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({}, r"has no checkpoint of a known format \(empty\)"),
        ({"a.txt": b"x", "b.npz": b"x"}, r"known format \(a.txt, b.npz\); ex"),
        ({"config.json": b"{}"}, "has no checkpoint of a known format"),
        ({"config.json": b"[]"}, "config.json: expected a JSON object"),
        (
            {"config.json": b"{}", "tf_model.h5": b"x"},
            "config.json, tf_model.h5",
        ),
        ({"model.ckpt.meta": b"x"}, r"known format \(model.ckpt.meta\)"),
        ({"model.ckpt.data-00000-of-00001": b"x"}, "has no checkpoint of a k"),
    ],
)
def test_folders_without_a_checkpoint(tmp_path, files, match):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert str(tmp_path) in open_error(tmp_path, match)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b'{"model_type": "albert"}'),
        ("notes.txt", b"just a text"),
        ("spiece.model", None),
        ("model.onnx", bytes(range(7, 256))),
        ("checkpoint", b'model_checkpoint_path: "x"\n'),
        ("empty", b""),
        ("weights.npz", b"PK\x05\x06" + bytes(18)),
    ],
)
def test_files_other_than_weights(stored, tmp_path, name, content):
    if content is None:
        content = (stored / name).read_bytes()
    (tmp_path / name).write_bytes(content)
    message = open_error(
        tmp_path / name, ", not a safetensors file, a PyTorch "
    )
    assert message.startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("my.weights.h5", "load those of save_weights with load_weights"),
        ("model.weights.h5", "load those of save_weights with load_weights"),
        ("my.keras", "keras.saving.load_model and save the model with save_p"),
        ("model.zip", "unpack it and give its folder"),
    ],
)
def test_intact_files_that_are_not_read(stored, tmp_path, name, match):
    path = tmp_path / name
    if name.endswith(".h5"):
        shutil.copy(stored / "keras_hub_classifier/model.weights.h5", path)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("config.json", "{}")
    assert "damaged" not in open_error(path, match)


def test_a_tokenizer_needs_no_known_head(copied, edited):
    folder = copied("huggingface_classifier")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na")
    with edited(folder / "config.json") as config:
        del config["architectures"]
    open_error(folder, "head")
    assert len(load_tokenizer(folder)) == 6


@pytest.mark.parametrize(
    "name",
    [
        "absent",
        "absent/",
        "model.ckpt-best",
        "absent.tar.gz",
        "absent/model.safetensors",
    ],
)
def test_missing_paths(tmp_path, name):
    path = f"{tmp_path}/{name}"
    open_error(path, f"no such file or folder: '{path}'")


def test_a_graph_without_a_checkpoint(tmp_path):
    path = tmp_path / "model.ckpt-best.meta"
    path.write_bytes(b"x")
    message = open_error(path, "is not a TensorFlow checkpoint")
    assert message.startswith(f"{tmp_path}/model.ckpt-best ")


def without(name):
    """Removes a file or folder."""

    def change(folder):
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def with_content(name, content):
    """Replaces a file."""
    return lambda folder: (folder / name).write_bytes(content)


def with_values(name, *keys, value=None):
    """Sets a value of a JSON file, or removes it."""

    def change(folder):
        whole = values = json.loads((folder / name).read_text())
        for key in keys[:-1]:
            values = values[key]
        values[keys[-1]] = value
        if value is None:
            del values[keys[-1]]
        (folder / name).write_text(json.dumps(whole))

    return change


META = "model.ckpt-best.meta"


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("google_tf1", without("albert_config.json"), "no albert_config.json"),
        ("google_tf1", with_content("albert_config.json", HTML), "is not JSON"),
        ("google_tf1", with_content(META, HTML), rf"{META} is damaged"),
        ("model_garden", without("albert_config.json"), "albert_config.json"),
        ("huggingface", without("config.json"), "has no config.json beside it"),
        ("huggingface", without("model.safetensors"), "of a known format"),
        ("albert_tf_run", without("config.json"), "config.json"),
        ("albert_tf_run", without("checkpoints"), "is a run that has no check"),
        ("keras_hub_classifier", without("config.json"), "config.json"),
        (
            "keras_hub_classifier",
            without("task.weights.h5"),
            "task.weights.h5: no such file",
        ),
        (
            "keras_hub_classifier",
            with_values("task.json", "class_name", value="BertTextClassifier"),
            "task.json describes a BertTextClass",
        ),
        (
            "keras_hub_classifier",
            with_values("config.json", "config", "num_groups", value=1),
            "task.json has another backbone",
        ),
        (
            "keras_hub_classifier",
            with_values("config.json", "config", "hidden_dim"),
            "config.json: key 'hidden_dim' is mis",
        ),
    ],
)
def test_incomplete_folders(copied, name, change, match):
    folder = copied(name)
    change(folder)
    assert str(folder) in open_error(folder, match)


def test_config_argument_replaces_a_missing_config(stored, tmp_path):
    folder = shutil.copytree(stored / "google_tf1", tmp_path / "tiny")
    config = AlbertConfig.from_json(folder / "albert_config.json")
    (folder / "albert_config.json").unlink()
    assert open_checkpoint(folder, config=config).config == config
    other = config.replace(num_hidden_groups=1)
    open_error(folder, "unexpected tensor .*group_1/", config=other)


@pytest.mark.parametrize(
    "name", ["huggingface", "keras_hub_classifier", "albert_tf_run"]
)
def test_config_is_only_for_tensorflow_checkpoints(stored, name):
    config = AlbertConfig(vocab_size=40, hidden_size=12)
    open_error(
        stored / name,
        "config=... is only for TensorFlow checkpoints, but "
        f"{stored / name}.* has a config.json; change fields of it with "
        "config_overrides=...",
        config=config,
    )


OVERRIDDEN = ["google_tf1", "huggingface", "albert_tf_run"]


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_overrides(stored, name):
    overrides = {"hidden_dropout_prob": 0.5}
    opened = open_checkpoint(stored / name, config_overrides=overrides)
    assert opened.config.hidden_dropout_prob == 0.5


@pytest.mark.parametrize("name", OVERRIDDEN)
@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        ({"hidden_size": 0}, r"hidden_size=0 must be in \[1, 65536\]"),
        ({"hidden_sice": 8}, "unknown key 'hidden_sice'"),
        ({"max_position_embeddings": 8}, "=16, not 8; the number can only"),
        ({"max_position_embeddings": "long"}, "='long' must be an integer"),
    ],
)
def test_invalid_overrides(stored, name, overrides, match):
    open_error(stored / name, match, config_overrides=overrides)


def test_fine_tuning_run_opens_as_its_model(stored, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(stored / "huggingface", run / "model")
    for name in ("run.json", "model/task.json"):
        (run / name).write_text("{}")
    (tmp_path / "runs.json").write_text('{"best": "run"}')
    opened, expected = map(open_checkpoint, (run, run / "model"))
    assert opened.source == expected.source
    assert open_checkpoint(tmp_path).source == expected.source
    assert opened.arrays.keys() == expected.arrays.keys()
