import re
import shutil

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.checks import check_export as check_export_module
from albert_tf.export.checks.check_export import (
    Finding,
    check_export,
    findings_table,
    read_export,
)


def results(findings):
    return {finding.name: finding.result for finding in findings}


def failures(findings):
    return {x.name: x.figure for x in findings if x.result == "FAIL"}


def saved_again(path, folder, change, signatures=True):
    """Writes an export anew after a change of what was loaded."""
    loaded = tf.saved_model.load(path)
    change(loaded)
    tf.saved_model.save(
        loaded, folder, signatures=loaded.signatures if signatures else None
    )
    for name in ("export.json", "README.md"):
        shutil.copy(path / name, folder)
    return folder


def flip_a_weight(loaded):
    weight = loaded.variables[0]
    value = weight.numpy()
    value.flat[0] += 1e-6
    weight.assign(value)


def test_preprocessor(preprocessor_path):
    findings = check_export(preprocessor_path)
    assert failures(findings) == {}
    assert len(findings) == 14


def test_three_kinds_of_damage(encoder_path, tmp_path):
    folder = saved_again(
        encoder_path, tmp_path / "e", flip_a_weight, signatures=False
    )
    (asset,) = (folder / "assets").iterdir()
    asset.unlink()
    failed = failures(check_export(folder))
    assert list(failed) == ["weights' sha256", "signature", "assets"]
    assert failed["signature"] == "there is no signature serving_default"
    assert failed["assets"] == f"sp_model_file: {asset.name} is missing"


def test_unfinished(encoder_path, tmp_path):
    folder = shutil.copytree(encoder_path, tmp_path / "e")
    (data,) = (folder / "variables").glob("variables.data*")
    data.write_bytes(data.read_bytes()[:100])
    (folder / "README.md").write_bytes(b"")
    findings = check_export(folder)
    assert results(findings) == {
        "finished": "FAIL",
        "no absolute paths": "pass",
        "loads": "FAIL",
    }


def test_a_process_that_ends_early(encoder_path, monkeypatch):
    # Whatever kills it: here, that it finds no program to run.
    monkeypatch.setattr(check_export_module, "_PROGRAM", "no_such_program")
    (finding,) = check_export(encoder_path)
    assert finding.name == "came to its end"
    assert finding.result == "FAIL"
    assert finding.figure.startswith("status 1: ")
    assert "no_such_program" in finding.figure


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no export.json, so no finished export"),
        ("{", "cannot be read as an export.json"),
        ("{}", "cannot be read as an export.json"),
        ('{"kind": "poem"}', "kind 'poem' must be one of encoder, prepro"),
    ],
)
def test_no_export(tmp_path, content, message):
    if content is not None:
        (tmp_path / "export.json").write_text(content)
    with pytest.raises(InputError, match=re.escape(message)):
        read_export(tmp_path)


def test_table():
    table = findings_table(
        [
            Finding(name="loads", result="pass", figure="TensorFlow 2"),
            Finding(name="weights' sha256", result="FAIL"),
        ]
    )
    assert table.splitlines() == [
        "check            result  figure",
        "loads            pass    TensorFlow 2",
        "weights' sha256  FAIL",
    ]
