"""Checkpoints of every format, opened in a process with limited memory."""

import json
import pathlib
import select
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.google import write_google
from albert_tf.interop.huggingface import write_huggingface
from albert_tf.interop.keras_hub import write_keras_hub
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

SERVER = pathlib.Path(__file__).with_name("open_checkpoints.py")
HANGS = 60  # seconds, on a machine however busy
WRITERS = {
    "huggingface": write_huggingface,
    "keras_hub": write_keras_hub,
    "google": write_google,
}


class Server:
    """A process with limited memory that opens checkpoints."""

    def __init__(self):
        self._start()

    def _start(self):
        self._process = subprocess.Popen(
            [sys.executable, SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"

    def open(self, path):
        """Returns "opened" and a fingerprint, or an error's type and text."""
        process = self._process
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        answer = ""
        if select.select([process.stdout], [], [], HANGS)[0]:
            answer = process.stdout.readline()
        if answer:
            return json.loads(answer)
        process.kill()
        status = process.wait()
        self._start()
        return "hung" if status == -9 else "crashed", f"status {status}"

    def close(self):
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def open_error(server):
    """Returns `open_error(path)`: the error message of the limited process."""

    def ask(path):
        kind, message = server.open(path)
        assert kind == "InputError", f"{path}: {kind}: {message}"
        assert "\n" not in message
        return message

    return ask


@pytest.fixture(scope="module")
def checkpoint(config, make_checkpoint, stored):
    """A checkpoint that consists mostly of word embeddings."""
    spiece = stored / "huggingface" / "spiece.model"
    tokenizer = AlbertTokenizer(spiece.read_bytes())
    config = config.replace(vocab_size=2000)
    return make_checkpoint(config, "mlm_head", vocabulary=Vocabulary(tokenizer))


@pytest.fixture(scope="module")
def make(checkpoint):
    """Returns `make(format, folder)`: a checkpoint of a format."""

    def write(form, folder):
        folder.mkdir(exist_ok=True)
        if form == "torch":
            write_huggingface(checkpoint, folder)
            (folder / "model.safetensors").unlink()
            save_torch(folder / "pytorch_model.bin", checkpoint)
        else:
            WRITERS[form](checkpoint, folder)
        return folder

    return write


def save_torch(path, checkpoint):
    import torch

    torch.save(
        {
            name: torch.tensor(np.ascontiguousarray(array))
            for name, array in checkpoint.tensors_for("huggingface")
        },
        path,
    )
