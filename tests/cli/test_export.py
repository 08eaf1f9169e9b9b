"""`albert export` as users run it."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401

from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_settings,
)
from albert_tf.models.encoder import AlbertEncoder

TEXT = "A good caf\u00e9 film, 1,000 times"


@pytest.fixture(scope="module")
def folder(folder, python_lines):
    """A folder with an encoder, a model of SST-2, and a file of text."""
    (folder / "texts.txt").write_text("\n".join(python_lines[:20]), "utf-8")
    task_config = with_settings(known_task("sst2"), {"max_seq_length": 32})
    start = AlbertEncoder.from_pretrained(folder / "start")
    kind = make_task_type(task_config, start.tokenizer)
    keras.utils.set_random_seed(0)
    model = kind.model_class(start.config, **kind.model_arguments())
    save_model(folder / "sst2", model, kind, task_config)
    return folder


@pytest.mark.long
def test_text_encoder_of_a_fine_tuned_model(albert, folder):
    result = albert(
        folder,
        "export --kind=text_encoder --model=sst2 --output=texts --seq_length=8",
    )
    assert result.returncode == 0, result.stderr
    assert "wrote texts" in result.stdout
    model = AlbertEncoder.from_pretrained(folder / "sst2")
    inputs = model.tokenizer(TEXT, max_length=8)
    outputs = tf.saved_model.load(folder / "texts")(tf.constant([TEXT]))
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(
            outputs[name], model(inputs)[name], rtol=0, atol=1e-5
        )


def test_int8_from_text(albert, folder):
    result = albert(
        folder,
        "export --kind=litert --model=start --output=new/int8 "
        "--quantization=int8 "
        "--calibration_input=*.txt --calibration_examples=7 "
        "--seq_length=16 --license=MIT",
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
