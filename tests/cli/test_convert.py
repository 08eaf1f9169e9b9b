"""`albert convert` as people type it; more is refused in tests/interop."""

import pathlib
import shutil
import tarfile

import pytest

from albert_tf.interop.open_checkpoint import open_checkpoint

STORED = pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with checkpoints, and with files that are none."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("google_tf1", "huggingface", "albert_tf_run"):
        shutil.copytree(STORED / name, folder / name)
    for name in ("keras_hub_classifier", "google_tf1"):
        shutil.copytree(STORED / name, folder / f"bad_{name}")
    cut(folder / "bad_keras_hub_classifier" / "model.weights.h5")
    cut(folder / "bad_google_tf1" / "model.ckpt-best.data-00000-of-00001")
    (folder / "page.safetensors").write_text("<!DOCTYPE html><html></html>")
    with tarfile.open(folder / "outside.tar", "w") as archive:
        archive.add(folder / "page.safetensors", "../page.safetensors")
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.fixture
def convert(albert):
    """Returns `convert(folder, flags)`."""
    return lambda folder, flags: albert(folder, f"convert {flags}")


def test_google_to_keras_hub(convert, folder):
    result = convert(
        folder,
        "--input=google_tf1 --output=new --to=keras_hub "
        "--drop=sop_head,mlm_head "
        "--config_overrides=attention_probs_dropout_prob=0.1",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "loaded 80 tensors from google_tf1/model.ckpt-best (Google TF1)",
        "components: encoder, pooler, mlm_head, sop_head",
        "tokenizer: 40 pieces",
        "skipped 1 (step counter): global_step",
        "dropped: sop_head",
        "dropped: mlm_head",
        "wrote new (keras_hub)",
    ]
    # In a log, one line for all tensors.
    warning, progress = sorted(result.stderr.splitlines(), reverse=True)
    assert progress == "73 of 73 tensors"
    assert (
        "warning: KerasHub's tokenizer will give the same ids, exc" in warning
    )
    assert open_checkpoint(folder / "new").heads == ()
    shutil.rmtree(folder / "new")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "bad_keras_hub_classifier",
            "model.weights.h5: an HDF5 weights file that is damaged",
        ),
        (
            "bad_google_tf1",
            "bad_google_tf1/model.ckpt-best is not a TensorFlow",
        ),
        ("outside.tar", "not safe to unpack: ../page.safetensors is"),
        (
            "huggingface --to=keras_hub",
            "has no sop_head; drop it with --drop=sop_head",
        ),
        (
            "google_tf1 --config_overrides=layers=3",
            "--config_overrides: 'layer",
        ),
        (
            "google_tf1 --output=albert_tf_run --overwrite",
            "has no model.safetensors, so it is not overwritten",
        ),
    ],
)
def test_one_line_and_status_2(convert, folder, command, message):
    before = {
        path: path.is_file() and path.read_bytes() for path in folder.rglob("*")
    }
    result = convert(folder, f"--output=new --input={command}")
    assert result.returncode == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("albert: ")
    assert message in line
    assert not result.stdout
    after = {
        path: path.is_file() and path.read_bytes() for path in folder.rglob("*")
    }
    assert after == before
