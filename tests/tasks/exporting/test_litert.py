"""LiteRT models of checkpoints, against the models they are made of."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.examples.example import (
    ChoiceExample,
    SpanExample,
    TextExample,
    WordsExample,
)
from albert_tf.errors import InputError
from albert_tf.export.litert.interpreter import signature_runner
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.export_checkpoint import export_checkpoint
from albert_tf.tasks.finetuning.model_folder import load_model
from albert_tf.text.tokenizer import AlbertTokenizer

LENGTH = 32
SETTINGS = {
    "max_seq_length": LENGTH,
    "max_qa_length": 12,
    "max_query_length": 8,
    "doc_stride": 8,
}
TEXT = "The value of the object is a string of many names"
EXAMPLES = {
    "mrpc": [
        TextExample(id="0", text=TEXT, pair="A class of 1,000", place=""),
        TextExample(id="1", text="A name", pair=TEXT, place=""),
    ],
    "stsb": [TextExample(id="0", text="A name", pair=TEXT, place="")],
    "dream": [
        ChoiceExample(
            id="0",
            passage=TEXT,
            question="Which one?",
            options=("a name", "an object"),
            place="",
        )
    ],
    "ner": [WordsExample(id="0", words=tuple(TEXT.split()), place="")],
    "squad1.1": [
        SpanExample(id="0", question="what value?", context=TEXT, place="")
    ],
    "squad2.0": [
        SpanExample(id="0", question="what value?", context=TEXT, place="")
    ],
}


def run_model(folder):
    content = (folder / "model.tflite").read_bytes()
    interpreter = tf.lite.Interpreter(model_content=content)
    names = {op["op_name"] for op in interpreter._get_ops_details()}
    assert not [name for name in names if name != name.upper()]
    return signature_runner(content)


def expected_outputs(kind, model, row):
    outputs = {n: np.asarray(x) for n, x in kind.forward(model, row).items()}
    if kind.description.kind == "classes":
        return {"probabilities": np.asarray(tf.nn.softmax(outputs["logits"]))}
    if kind.description.kind == "number":
        return {"value": outputs["logits"][:, 0]}
    return outputs


@pytest.mark.parametrize("name", EXAMPLES)
def test_tasks(make_finetuned, assert_answers_are_compared, tmp_path, name):
    source = make_finetuned(name, **SETTINGS)
    export_checkpoint(source, tmp_path / "export", "litert")
    run = run_model(tmp_path / "export")
    loaded = load_model(source, packed=False)
    kind = loaded.kind
    rows = kind.prepare(EXAMPLES[name]).rows
    for number in range(rows.num_examples):
        row = rows.pad([number], length=LENGTH)
        expected = expected_outputs(kind, loaded.model, row)
        outputs = run(**row)
        assert set(outputs) == set(expected)
        for output, values in expected.items():
            assert outputs[output].dtype == values.dtype
            # Sums in another order.
            np.testing.assert_allclose(
                outputs[output], values, atol=1e-5, err_msg=output
            )
    values = json.loads((tmp_path / "export" / "export.json").read_text())
    assert values["task"] == json.loads(kind.description.to_json())
    with zipfile.ZipFile(tmp_path / "export" / "model.tflite") as archive:
        has_labels = "labels.txt" in archive.namelist()
        assert has_labels == (kind.description.labels is not None)
        if has_labels:
            lines = archive.read("labels.txt").decode().splitlines()
            assert tuple(lines) == kind.description.labels
    assert_answers_are_compared(source, tmp_path / "export")


def test_calibrated_task_of_any_length(make_finetuned, tmp_path):
    source = make_finetuned("mrpc", **SETTINGS)
    lines = [f"{x.text}\t{x.pair}" for x in EXAMPLES["mrpc"]]
    (tmp_path / "pairs.txt").write_text("\n".join([*lines, *lines, "a\tb"]))
    config = ExportConfig(
        quantization="int8",
        calibration_input=tmp_path / "pairs.txt",
        calibration_examples=3,
        resizable=True,
    )
    export_checkpoint(source, tmp_path / "export", "litert", config)
    run = run_model(tmp_path / "export")
    loaded = load_model(source, packed=False)
    rows = loaded.kind.prepare(EXAMPLES["mrpc"]).rows
    for number in range(rows.num_examples):
        row = rows.pad([number])
        expected = expected_outputs(loaded.kind, loaded.model, row)
        np.testing.assert_allclose(
            run(**row)["probabilities"],
            expected["probabilities"],
            atol=0.1,  # 8 bits; see tests/export/litert/test_conversion.py.
        )
    values = json.loads((tmp_path / "export" / "export.json").read_text())
    assert values["calibration_examples"] == 3

    (tmp_path / "texts.txt").write_text("a\tb\n\nonly one\n")
    config = dataclasses.replace(
        config, calibration_input=tmp_path / "texts.txt"
    )
    with pytest.raises(InputError, match="calibration_input:2: the task mrpc"):
        export_checkpoint(source, tmp_path / "other", "litert", config)


def test_questions_are_calibrated_with_files(make_finetuned, tmp_path):
    source = make_finetuned("squad1.1", **SETTINGS)
    question = {"id": "q", "question": "what?", "answers": []}
    paragraph = {"context": TEXT, "qas": [question]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    config = ExportConfig(quantization="int8", calibration_input=path)
    export_checkpoint(source, tmp_path / "export", "litert", config)
    values = json.loads((tmp_path / "export" / "export.json").read_text())
    assert values["calibration_examples"] > 0
    outputs = values["signatures"]["serving_default"]["outputs"]
    assert outputs == ["end_logits", "start_logits"]


def test_encoder_of_a_pretrained_model(pretrained, tmp_path):
    export_checkpoint(
        pretrained, tmp_path / "out", "litert", ExportConfig(seq_length=16)
    )
    with zipfile.ZipFile(tmp_path / "out" / "model.tflite") as archive:
        archive.extract("spiece.model", tmp_path)
    tokenizer = AlbertTokenizer.from_file(tmp_path / "spiece.model")
    row = tokenizer("Étude 1,000", max_length=16, padding="max_length")
    expected = AlbertEncoder.from_pretrained(pretrained)(row)
    outputs = run_model(tmp_path / "out")(**row)
    assert set(outputs) == {"sequence_output", "pooled_output"}
    for name, values in outputs.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-5)
