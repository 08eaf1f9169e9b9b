"""LiteRT models of checkpoints, against the models they are made of."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.export import export
from albert_tf.exporting.litert_conversion import signature_runner
from albert_tf.finetuning.model_folder import load_model
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer

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


@pytest.mark.parametrize(
    "name",
    [
        "mrpc",
        *(
            pytest.param(x, marks=pytest.mark.long)
            for x in ("squad2.0", "dream", "ner", "stsb pair_features")
        ),
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("stsb", "squad1.1")
        ),
    ],
)
def test_tasks(make_finetuned, assert_same_as_source, tmp_path, name):
    source = make_finetuned(name, **SETTINGS)
    export(
        ExportConfig(model=source, output=tmp_path / "export", kind="litert")
    )
    assert_same_as_source(source, tmp_path / "export")
    run_model(tmp_path / "export")
    values = json.loads((tmp_path / "export" / "export.json").read_text())
    task = json.loads((source / "task.json").read_text())
    assert values["task"] == task
    with zipfile.ZipFile(tmp_path / "export" / "model.tflite") as archive:
        has_labels = "labels.txt" in archive.namelist()
        assert has_labels == (task["labels"] is not None)
        if has_labels:
            lines = archive.read("labels.txt").decode().splitlines()
            assert lines == task["labels"]


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
    with pytest.raises(InputError, match="calibration_input:2: the task mrpc"):
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


@pytest.mark.long
def test_encoder_of_a_pretrained_model(pretrained, tmp_path):
    export(
        ExportConfig(
            model=pretrained,
            output=tmp_path / "out",
            kind="litert",
            seq_length=16,
        )
    )
    with zipfile.ZipFile(tmp_path / "out" / "model.tflite") as archive:
        archive.extract("spiece.model", tmp_path)
    tokenizer = AlbertTokenizer.from_file(tmp_path / "spiece.model")
    row = tokenizer("Étude 1,000", max_length=16, padding="max_length")
    encoder = AlbertEncoder.from_pretrained(pretrained)
    expected = dict(encoder(row), mean_output=encoder.mean_output(row))
    outputs = run_model(tmp_path / "out")(**row)
    assert {"encoder_outputs", *outputs} == set(expected)
    for name, values in outputs.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-5)
