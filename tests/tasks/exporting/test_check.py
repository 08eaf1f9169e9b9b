"""`albert export --check` of every kind, against what it was made of."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from albert_tf.errors import InputError
from albert_tf.export.checks.check_export import (
    KINDS,
    check_export,
    read_export,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tasks.exporting.expectations import expected_of
from albert_tf.tasks.exporting.export_checkpoint import KINDS as WRITTEN


def albert(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "albert_tf", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_every_kind_has_checks():
    assert set(KINDS) == set(WRITTEN)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_passes(exports, kind):
    source, folder = exports[kind]
    findings = check_export(folder, expected_of(source, read_export(folder)))
    found = {x.name: (x.result, x.figure) for x in findings}
    for name, (result, figure) in found.items():
        assert result == "pass", (name, figure)
    assert {"finished", "no absolute paths", "loads"} < found.keys()
    assert any("real text" in name for name in found)


def test_a_model_of_another_task(exports, make_finetuned):
    _, folder = exports["task"]
    other = make_finetuned("stsb")
    with pytest.raises(InputError, match="task has kind=number, but the exp"):
        expected_of(other, read_export(folder))


@pytest.mark.parametrize("kind", KINDS)
def test_no_file_has_a_path_of_this_machine(exports, kind):
    source, folder = exports[kind]
    repository = pathlib.Path(__file__).resolve().parents[3]
    places = {
        str(repository),
        str(source.parent),
        str(folder.parent),
        str(pathlib.Path(tempfile.gettempdir()) / "pytest-of"),
        sys.prefix,
        os.getcwd(),
        str(pathlib.Path.home() / ".cache"),
    }
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        for place in places:
            assert place.encode() not in content, (path, place)


@pytest.mark.parametrize("kind", ["text_encoder", "task", "litert"])
def test_code_of_the_card_runs(exports, kind, tmp_path):
    folder = shutil.copytree(exports[kind][1], tmp_path / "elsewhere")
    card = (folder / "README.md").read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert programs
    for code in programs:
        result = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, f"{code}\n{result.stderr[-3000:]}"


def test_command_against_another_model(exports, make_pretrained):
    _, folder = exports["encoder"]
    result = albert(
        "export", f"--check={folder}", f"--model={make_pretrained(9)}"
    )
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["check", "result", "figure"]
    failed = [line.split("  ")[0] for line in lines if "  FAIL  " in line]
    assert failed == ["numbers: random ids", "numbers: real text"]
    assert "differs by" in lines[-1]
    (line,) = result.stderr.splitlines()
    assert line == (
        f"albert: export: {folder}: 2 of 17 checks failed: numbers: random "
        "ids, numbers: real text"
    )


def test_command_without_a_model(exports):
    result = albert("export", f"--check={exports['preprocessor'][1]}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    assert re.search(r"^ids: real text +skip +no --model", result.stdout, re.M)


def test_another_architecture(exports, small_config, tokenizer, tmp_path):
    config = small_config.replace(num_hidden_layers=3)
    AlbertEncoder(config).save_pretrained(tmp_path / "m", tokenizer)
    manifest = read_export(exports["encoder"][1])
    with pytest.raises(InputError, match="has num_hidden_layers=3, but the ex"):
        expected_of(tmp_path / "m", manifest)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check=nowhere"], "check=nowhere: no export.json, so no finished"),
        (["--check=x", "--output=y"], "--check writes nothing; leave --output"),
        (["--model=x"], "--output is required"),
        (["--output=x"], "--model is required"),
    ],
)
def test_bad_input(arguments, message):
    result = albert("export", *arguments)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert message in line
