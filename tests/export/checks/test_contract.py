"""Each check of the program that `check_export` runs can fail, by itself."""

import json
import shutil

import pytest
import tensorflow as tf

from albert_tf.export.checks.contract import (
    encoder,
    files,
    litert,
    preprocessor,
    task,
    text_encoder,
)
from albert_tf.export.checks.contract.exported import Exported
from albert_tf.export.checks.contract.findings import Failed, Findings, Skipped
from albert_tf.export.checks.contract.numbers import difference

KINDS = {
    "encoder": encoder,
    "preprocessor": preprocessor,
    "text_encoder": text_encoder,
    "task": task,
    "litert": litert,
}


def copied(path, tmp_path, **changes):
    """Copies an export, with changes of its `export.json`."""
    folder = shutil.copytree(path, tmp_path / "copy")
    manifest = json.loads((folder / "export.json").read_text())
    for name, value in changes.items():
        part = manifest
        *parents, last = name.split("__")
        for parent in parents:
            part = part[parent]
        part[last] = value
    (folder / "export.json").write_text(json.dumps(manifest))
    return Exported(str(folder), "")


@pytest.mark.parametrize(
    ("kind", "check", "changes", "message"),
    [
        (
            "encoder",
            "weights' sha256",
            {"weights_sha256": "0" * 64},
            "sha256: ",
        ),
        ("encoder", "weights' sha256", {"weights": ["a"]}, "names: "),
        (
            "encoder",
            "outputs",
            {"config__num_hidden_layers": 3},
            "encoder_outputs of",
        ),
        (
            "encoder",
            "outputs",
            {"config__hidden_size": 8},
            "shape of sequence_output",
        ),
        (
            "encoder",
            "do_lower_case",
            {"tokenizer__do_lower_case": False},
            "not False",
        ),
        (
            "encoder",
            "assets",
            {"tokenizer__fingerprint": "0"},
            "sha256 of sp_model_file",
        ),
        (
            "encoder",
            "assets",
            {"tokenizer__file": "vocab.txt"},
            "has no vocab_file",
        ),
        (
            "encoder",
            "dropout off, on",
            {
                "config__hidden_dropout_prob": 0,
                "config__attention_probs_dropout_prob": 0,
            },
            "training=True: equal=False",
        ),
        (
            "encoder",
            "over-length error",
            {"config__max_position_embeddings": 30},
            "31 tokens were taken",
        ),
        (
            "encoder",
            "over-length error",
            {"config__max_position_embeddings": 60},
            "does not say 60",
        ),
        ("preprocessor", "outputs", {"seq_length": 8}, "shape of input_"),
        ("preprocessor", "Dataset.map", {"seq_length": 8}, "shape of input_"),
        (
            "preprocessor",
            "assets",
            {"tokenizer__fingerprint": "0"},
            "sha256 of sp_model_file",
        ),
        (
            "text_encoder",
            "weights' sha256",
            {"weights_sha256": "0" * 64},
            "sha256: ",
        ),
        (
            "text_encoder",
            "outputs",
            {"seq_length": 8},
            "rows of 40, more than 8",
        ),
        (
            "text_encoder",
            "outputs",
            {"config__hidden_size": 8},
            "shape of pooled_output",
        ),
        (
            "text_encoder",
            "assets",
            {"tokenizer__fingerprint": "0"},
            "sha256 of sp_model_file",
        ),
        (
            "text_encoder",
            "do_lower_case",
            {"tokenizer__do_lower_case": False},
            "not False",
        ),
        ("task", "weights' sha256", {"weights": ["a"]}, "names: "),
        ("task", "labels", {"task__labels": ["a", "b"]}, r"not \['a', 'b'\]"),
        (
            "task",
            "signatures",
            {"signatures__serving_default__inputs": ["text"]},
            "inputs of serving_default",
        ),
        (
            "task",
            "signatures",
            {"signatures__serving_default__outputs": ["label"]},
            "outputs of serving_default",
        ),
        (
            "task",
            "signatures",
            {"signatures__words": {"inputs": [], "outputs": []}},
            "there is no signature words",
        ),
        (
            "task",
            "assets",
            {"tokenizer__fingerprint": "0"},
            "sha256 of sp_model_file",
        ),
        ("litert", "sha256", {"sha256": "0" * 64}, "sha256: "),
        (
            "litert",
            "signature",
            {"signatures__serving_default__outputs": ["logits"]},
            r"outputs: .*not \['logits'\]",
        ),
        (
            "litert",
            "associated files",
            {"associated_files": []},
            "associated files",
        ),
        (
            "litert",
            "associated files",
            {"tokenizer__fingerprint": "0"},
            "sha256 of the vocabulary",
        ),
    ],
)
def test_an_export_is_not_what_its_manifest_says(
    request, tmp_path, kind, check, changes, message
):
    path = request.getfixturevalue(f"{kind}_path")
    exported = copied(path, tmp_path, **changes)
    with pytest.raises(Failed, match=message):
        KINDS[kind].CHECKS[check](exported)


def without_head(root):
    del root.mlm


def other_trainable(root):
    root.trainable_variables = root.trainable_variables[1:]


def useless_variable(root):
    root.trainable_variables = [*root.trainable_variables, tf.Variable(1.0)]


@pytest.mark.parametrize(
    ("check", "damage", "message"),
    [
        ("inputs", without_head, "there is no .mlm"),
        ("trainable variables", other_trainable, "trainable_variables"),
        ("gradients", useless_variable, "has no gradient"),
    ],
)
def test_encoder_without_a_part(encoder_path, check, damage, message):
    exported = Exported(str(encoder_path), "")
    damage(exported.root)
    with pytest.raises(Failed, match=message):
        encoder.CHECKS[check](exported)


def test_nothing_to_compare_with(encoder_path):
    exported = Exported(str(encoder_path), "")
    with pytest.raises(Skipped, match="no --model"):
        encoder.CHECKS["numbers: real text"](exported)


def test_a_flipped_bit_of_a_litert_model(litert_path, tmp_path):
    exported = copied(litert_path, tmp_path)
    litert.CHECKS["sha256"](exported)
    with open(exported.path("model.tflite"), "r+b") as file:
        file.seek(2000)
        (byte,) = file.read(1)
        file.seek(2000)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(Failed, match="sha256: "):
        litert.CHECKS["sha256"](exported)


@pytest.mark.parametrize(
    "text", ["in /home/ada/models", r"in C:\Users\ada", '"/content/run"']
)
def test_paths_are_found(encoder_path, tmp_path, text):
    exported = copied(encoder_path, tmp_path)
    files.CHECKS["no absolute paths"](exported)
    with open(exported.path("README.md"), "a") as card:
        card.write(text)
    with pytest.raises(Failed, match=r"README.md has '"):
        files.CHECKS["no absolute paths"](exported)


def test_a_path_of_this_machine_is_found_in_assets(encoder_path, tmp_path):
    exported = copied(encoder_path, tmp_path)
    with open(exported.path("assets", "extra"), "wb") as file:
        file.write(bytes(range(256)) + str(tmp_path / "text.txt").encode())
    with pytest.raises(Failed, match="extra has '"):
        files.CHECKS["no absolute paths"](exported)


def test_addresses_are_no_paths(encoder_path, tmp_path):
    exported = copied(encoder_path, tmp_path)
    with open(exported.path("README.md"), "a") as card:
        card.write("https://example.org/home/ada and model/data/a and </tmp/x>")
    files.CHECKS["no absolute paths"](exported)


@pytest.mark.parametrize("name", ["README.md", "saved_model.pb"])
def test_missing_files(encoder_path, tmp_path, name):
    exported = copied(encoder_path, tmp_path)
    (tmp_path / "copy" / name).unlink()
    with pytest.raises(Failed, match=f"{name} is not there"):
        files.CHECKS["finished"](exported)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([1.0, 1.0002], "x: differs by 0.0002, more than 0.0001"),
        ([1.0, float("nan")], "x: not finite"),
        ([1.0], r"x: shape \[1\], not \[2\]"),
    ],
)
def test_numbers_differ(found, message):
    with pytest.raises(Failed, match=message):
        difference(found, [1.0, 1.0], "x")


def test_numbers_of_padding_do_not_count():
    assert difference([1.0, 9.0], [1.0, 3.0], "x", real=[1, 0]) == 0.0
    # Of large numbers, the share counts.
    assert difference([1000.05], [1000.0], "x") == pytest.approx(5e-5)


def test_findings_are_lines(tmp_path):
    def skip():
        raise Skipped("nothing there")

    def fail():
        raise ValueError("a\nb" + "c" * 300)

    findings = Findings(str(tmp_path / "findings"))
    assert findings.add("one", lambda x: f"{x} figures", 2)
    assert findings.add("two", skip)
    assert not findings.add("three", fail)
    findings.finish()
    lines = (tmp_path / "findings").read_text().splitlines()
    one, two, three, end = map(json.loads, lines)
    assert one == {"name": "one", "result": "pass", "figure": "2 figures"}
    assert two == {"name": "two", "result": "skip", "figure": "nothing there"}
    assert three["figure"].startswith("ValueError: a bccc")
    assert len(three["figure"]) == 200
    assert end == {"finished": True}
