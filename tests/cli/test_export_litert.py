"""`albert export --kind=litert` as users run it."""

import json

import pytest

EXPORT = "export --kind=litert --model=start "


@pytest.fixture(scope="module")
def folder(folder, python_lines):
    """A folder with a small model and a file of text."""
    (folder / "texts.txt").write_text("\n".join(python_lines[:20]), "utf-8")
    return folder


def test_int8_from_text(albert, folder):
    result = albert(
        folder,
        f"{EXPORT} --output=new/int8 --quantization=int8 "
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
