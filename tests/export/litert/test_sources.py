"""LiteRT models of checkpoints, against the models they are made of."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.litert_conversion import signature_runner
from albert_tf.exporting.runtimes import text_calibration
from albert_tf.finetuning.model_folder import load_model

LENGTH = 32
SETTINGS = {
    "max_seq_length": LENGTH,
    "max_qa_length": 12,
    "max_query_length": 8,
    "doc_stride": 8,
}
TEXT = "The value of the object is a string of many names"
PAIRS = [(TEXT, "A class of 1,000"), ("A name", TEXT)]


def run_model(folder):
    content = (folder / "model.tflite").read_bytes()
    interpreter = tf.lite.Interpreter(model_content=content)
    names = {op["op_name"] for op in interpreter._get_ops_details()}
    assert not [name for name in names if name != name.upper()]
    return signature_runner(content)


def test_calibrated_task_of_any_length(make_finetuned, tmp_path):
    source = make_finetuned("mrpc", **SETTINGS)
    lines = ["\t".join(pair) for pair in PAIRS]
    (tmp_path / "pairs.txt").write_text("\n".join([*lines, *lines, "a\tb"]))
    config = ExportConfig(
        model=source,
        output=tmp_path / "export",
        kind="litert",
        quantization="int8",
        calibration_input=tmp_path / "pairs.txt",
        calibration_examples=3,
        resizable=True,
    )
    export(config)
    run = run_model(tmp_path / "export")
    loaded = load_model(source, packed=False)
    for pair in PAIRS:
        row = loaded.task_type.tokenizer(*pair, max_length=LENGTH)
        expected = tf.nn.softmax(loaded.model(row))
        np.testing.assert_allclose(
            run(**row)["probabilities"],
            expected,
            atol=0.1,  # 8 bits; see tests/export/litert/test_conversion.py.
        )
    values = json.loads((tmp_path / "export" / "export.json").read_text())
    assert values["calibration_examples"] == 3

    (tmp_path / "texts.txt").write_text("a\tb\n\nonly one\n")
    config = dataclasses.replace(
        config, calibration_input=tmp_path / "texts.txt"
    )
    with pytest.raises(InputError, match=r"texts.txt:3: the task .* 1$"):
        export(dataclasses.replace(config, output=tmp_path / "other"))
    (tmp_path / "texts.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"texts.txt: the file contains no te"):
        export(dataclasses.replace(config, output=tmp_path / "other"))


def test_questions_are_calibrated_with_files(make_finetuned, tmp_path):
    source = make_finetuned("squad1.1", **SETTINGS)
    question = {"id": "q", "question": "what?", "answers": []}
    paragraph = {"context": TEXT, "qas": [question]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    export(
        ExportConfig(
            model=source,
            output=tmp_path / "export",
            kind="litert",
            quantization="int8",
            calibration_input=path,
        )
    )
    values = json.loads((tmp_path / "export" / "export.json").read_text())
    assert values["calibration_examples"] > 0
    outputs = values["signatures"]["serving_default"]["outputs"]
    assert outputs == ["end_logits", "start_logits"]


def test_encoders_are_calibrated_with_the_first_lines(tokenizer, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{TEXT} {name}\n\nA name\n")
    config = ExportConfig(
        model="model",
        output="new",
        kind="litert",
        quantization="int8",
        calibration_input=f"{tmp_path}/*.txt",
        calibration_examples=3,
    )
    lengths = {"max_length": LENGTH, "padding": "max_length"}
    for row, text in zip(
        text_calibration(config, tokenizer, LENGTH),
        (f"{TEXT} a", "A name", f"{TEXT} b"),
        strict=True,
    ):
        np.testing.assert_equal(row, tokenizer(text, **lengths))
