"""Each check of the program that `check_export` runs can fail, by itself."""

import json
import shutil

import pytest
import tensorflow as tf

from albert_tf.export.checks.contract import (
    encoder,
    files,
    preprocessor,
)
from albert_tf.export.checks.contract.exported import Exported
from albert_tf.export.checks.contract.findings import Failed, Findings, Skipped
from albert_tf.export.checks.contract.numbers import difference


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
    ("check", "changes", "message"),
    [
        ("weights' sha256", {"weights_sha256": "0" * 64}, "sha256: "),
        ("weights' sha256", {"weights": ["a"]}, "names: "),
        ("outputs", {"config__num_hidden_layers": 3}, "encoder_outputs of"),
        ("outputs", {"config__hidden_size": 8}, "shape of sequence_output"),
        ("do_lower_case", {"tokenizer__do_lower_case": False}, "not False"),
        ("assets", {"tokenizer__fingerprint": "0"}, "sha256 of sp_model_file"),
        ("assets", {"tokenizer__file": "vocab.txt"}, "has no vocab_file"),
        (
            "dropout off, on",
            {
                "config__hidden_dropout_prob": 0,
                "config__attention_probs_dropout_prob": 0,
            },
            "training=True: equal=False",
        ),
        (
            "over-length error",
            {"config__max_position_embeddings": 30},
            "31 tokens were taken",
        ),
        (
            "over-length error",
            {"config__max_position_embeddings": 60},
            "does not say 60",
        ),
    ],
)
def test_encoder_is_not_what_its_manifest_says(
    encoder_path, tmp_path, check, changes, message
):
    exported = copied(encoder_path, tmp_path, **changes)
    with pytest.raises(Failed, match=message):
        encoder.CHECKS[check](exported)


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


@pytest.mark.parametrize(
    ("check", "changes", "message"),
    [
        ("outputs", {"seq_length": 8}, "shape of input_"),
        ("Dataset.map", {"seq_length": 8}, "shape of input_"),
        ("assets", {"tokenizer__fingerprint": "0"}, "sha256 of sp_model_file"),
    ],
)
def test_preprocessor_is_not_what_its_manifest_says(
    preprocessor_path, tmp_path, check, changes, message
):
    exported = copied(preprocessor_path, tmp_path, **changes)
    with pytest.raises(Failed, match=message):
        preprocessor.CHECKS[check](exported)


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
