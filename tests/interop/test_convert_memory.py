"""Conversions of the largest model, 223 M parameters, take 2.5 GB of memory."""

import filecmp
import os
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.interop.checkpoint import Checkpoint, LazyArrays
from albert_tf.interop.huggingface import write_huggingface
from albert_tf.interop.names import tensors_of

pytestmark = pytest.mark.slow

_LIMIT = 2.5e9


@pytest.fixture(scope="module")
def xxlarge(tmp_path_factory):
    config = AlbertConfig.from_official("albert_xxlarge_v2")
    components = frozenset(
        ["encoder", "projection", "pooler", "mlm_head", "sop_head"]
    )

    shapes = {t.path: t.shape for t in tensors_of(config, components)}

    def read(path):
        random = np.random.default_rng([*path.encode()])
        return random.random(shapes[path], dtype=np.float32)

    folder = tmp_path_factory.mktemp("xxlarge")
    arrays = LazyArrays(shapes, read)
    write_huggingface(Checkpoint(config, components, arrays), folder)
    return folder


def convert(*flags):
    """Runs the command; returns its output and its peak memory in bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "albert_tf", "convert", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    return output, usage.ru_maxrss * 1024


def test_there_and_back(xxlarge, tmp_path):
    google, back = tmp_path / "google", tmp_path / "back"
    for flags in (
        (f"--input={xxlarge}", "--to=google", f"--output={google}"),
        (f"--input={google}", "--to=huggingface", f"--output={back}"),
    ):
        output, memory = convert(*flags)
        assert memory < _LIMIT
        assert "32 of 32 tensors" in output
        assert output.count(" of 32 tensors") == 1
        print(f"{flags[1]}: {memory / 1e9:.2f} GB")
    assert filecmp.cmp(
        xxlarge / "model.safetensors", back / "model.safetensors", shallow=False
    )


def test_to_a_preset(xxlarge, tmp_path):
    _, memory = convert(
        f"--input={xxlarge}",
        "--to=keras_hub",
        "--drop=mlm_head,sop_head",
        f"--output={tmp_path / 'preset'}",
    )
    assert memory < _LIMIT
    _, memory = convert(
        f"--input={tmp_path / 'preset'}", f"--output={tmp_path / 'back'}"
    )
    assert memory < _LIMIT
