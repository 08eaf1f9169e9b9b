"""`albert export --kind=litert` as users run it."""

import json
import subprocess
import sys

import keras
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.demo.python_docs import python_documents
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small model and a file of text."""
    folder = tmp_path_factory.mktemp("user")
    lines = [
        line for _, paragraphs in python_documents([]) for line in paragraphs
    ][:1000]
    (folder / "texts.txt").write_text("\n".join(lines[:20]), "utf-8")
    model = train_vocabulary(lines, folder / "spiece", vocab_size=400)
    config = AlbertConfig(
        vocab_size=400,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    keras.utils.set_random_seed(0)
    AlbertEncoder(config).save_pretrained(
        folder / "model", AlbertTokenizer.from_file(model)
    )
    return folder


def export(folder, command):
    return subprocess.run(
        [sys.executable, "-m", "albert_tf", "export", "--kind=litert"]
        + ["--model=model", *command.split()],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_int8_from_text(folder):
    result = export(
        folder,
        "--output=new/int8 --quantization=int8 --calibration_input=*.txt "
        "--calibration_examples=7 --seq_length=16 --licence=MIT",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "wrote new/int8\n"
    values = json.loads((folder / "new/int8/export.json").read_text())
    assert {
        "quantization": "int8",
        "calibration_examples": 7,
        "seq_length": 16,
        "resizable": False,
    }.items() <= values.items()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("--quantization=int8", "int8 needs calibration_input"),
        (
            "--quantization=int8 --calibration_input=absent.txt",
            "absent.txt: no such file",
        ),
        ("--calibration_input=texts.txt", "no use for calibration_input"),
        ("--seq_length=33", "seq_length=33 must be at least 2"),
        ("--quantization=int4", "should be one of"),
    ],
)
def test_one_line_and_status_2(folder, command, message):
    result = export(folder, f"--output=other {command}")
    assert result.returncode == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert message in line
    assert not (folder / "other").exists()
