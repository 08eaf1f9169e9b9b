import importlib.util
import json
import re
import shutil
import sys

import pytest

from albert_tf.exporting.config import KINDS
from albert_tf.exporting.manifest import Origin
from albert_tf.exporting.model_card import model_card

MANIFEST = {
    "settings": {"text_format": "prose", "language": "de", "ngram": 3},
    "inputs": [
        {"name": "a.txt", "bytes": 1000, "sha256": "0"},
        {"name": "b.txt", "bytes": 234, "sha256": "1"},
    ],
    "splits": {
        "train": {
            "files": [{"name": "pretraining-00000-of-00001.tfrecord"}],
            "passes": 2,
            "counts": {"documents": 12, "one_sentence_chunks": 7},
            "labels": {"0": 1, "1": 1},
            "padding_fraction": 0.25,
            "masking_rate": 0.1234,
            "constant_guess_accuracy": 0.0501,
        }
    },
}
ORIGIN = Origin(
    name="albert_tiny",
    source="training run of albert_tf, step 3200",
    data_manifest=MANIFEST,
    training_flags={"learning_rate": "0.001", "input": "records"},
    scores={"mlm_accuracy": 0.5, "loss": 2.0},
    baselines={"most frequent label": {"accuracy": 0.25}},
    scored_on="held-out documents, by the run at step 3200",
    license="Apache-2.0",
)
VALUES = {
    "kind": "encoder",
    "config": {"hidden_size": 312, "sharing": "all"},
    "parameters": {"encoder": 5000, "mlm_head": 234},
    "packed": False,
    "weights": ["encoder/a"],
    "weights_sha256": "ab" * 32,
    "tokenizer": {"file": "spiece.model", "do_lower_case": True},
    "versions": {"tensorflow": "2.21.0"},
}


def test_known_origin():
    card = model_card(VALUES, ORIGIN)
    front, body = card.removeprefix("---\n").split("\n---\n")
    assert "license: apache-2.0" in front.splitlines()
    assert "language: de" in front.splitlines()
    assert "pipeline_tag: feature-extraction" in front.splitlines()
    for line in (
        "# albert_tiny: encoder",
        "Made from: training run of albert_tf, step 3200.",
        "| hidden_size | 312 |",
        "| parameters: encoder | 5,000 |",
        "| parameters: all | 5,234 |",
        "| packed | no |",
        "| do_lower_case | yes |",
        "Text: 2 files of 1,234 bytes.",
        "| ngram | 3 |",
        "| documents | 12 |",
        "| one sentence chunks | 7 |",
        "| masking rate (effective) | 0.1234 |",
        "--learning_rate=0.001",
        "Of held-out documents, by the run at step 3200.",
        "| mlm_accuracy | 0.5 |",
        "| accuracy: most frequent label | 0.25 |",
        "Apache-2.0",
        "| made with tensorflow | 2.21.0 |",
        f"| sha256 of the weights | `{'ab' * 32}` |",
    ):
        assert line in body.splitlines(), line


def test_unknown_origin():
    card = model_card(VALUES, Origin())
    assert "license:" not in card
    assert "language:" not in card
    for title, text in (
        ("License", "Not stated."),
        ("Training data", "Not recorded."),
        ("Training", "Not recorded."),
        ("Scores", "Not recorded."),
    ):
        assert f"\n## {title}\n\n{text}\n" in card


def test_a_license_without_an_identifier_is_other():
    origin = Origin(license="for research only")
    card = model_card(VALUES, origin)
    assert "license: other\n" in card
    assert "\n## License\n\nfor research only\n" in card


def test_origin_survives_json_without_lists_of_files():
    values = json.loads(json.dumps(ORIGIN.to_dict()))
    again = Origin.from_dict({**values, "of_a_later_version": 1})
    assert again.scores == ORIGIN.scores
    assert again.license == ORIGIN.license == "Apache-2.0"
    assert "inputs" not in again.data_manifest
    assert "files" not in again.data_manifest["splits"]["train"]
    card = model_card(VALUES, again)
    assert "| masking rate (effective) | 0.1234 |" in card


def blocks(folder):
    card = (folder / "README.md").read_text("utf-8")
    return re.findall(r"With ([^\n]*):\n\n```python\n(.*?)```", card, re.DOTALL)


TF_KERAS = ("encoder", "preprocessor")
RUNTIMES = {
    "litert": "LiteRT",
    "onnx": "ONNX Runtime",
    "openvino": "OpenVINO",
    "web": "ONNX Runtime",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_code_runs(kind, exports, run_albert, tmp_path):
    folder = shutil.copytree(exports[kind][1], tmp_path / "elsewhere")
    programs = dict(blocks(folder))
    runtime = RUNTIMES.get(kind, "TensorFlow")
    others = ["tf_keras", "Keras 3"] if kind in TF_KERAS else []
    others += ["MediaPipe"] if kind == "litert" else []
    assert list(programs) == [runtime, *others]
    for title, code in programs.items():
        if title == "MediaPipe" and not importlib.util.find_spec("mediapipe"):
            continue
        if title != "tf_keras":
            result = run_albert("-c", code, cwd=folder)
            assert result.returncode == 0, f"{title}: {result.stderr[-3000:]}"


@pytest.mark.long
def test_code_for_tf_keras_runs(exports, run_program, tmp_path):
    """In a fresh process, as it sets TF_USE_LEGACY_KERAS itself."""
    arguments = []
    for kind in TF_KERAS:
        folder = shutil.copytree(exports[kind][1], tmp_path / kind)
        (tmp_path / f"{kind}.py").write_text(dict(blocks(folder))["tf_keras"])
        arguments += [folder, tmp_path / f"{kind}.py"]
    run_program("code_of_cards.py", *arguments, python=sys.executable)


def test_lists_the_corpora_of_a_mixture():
    corpora = [
        {"name": "wiki", "weight": 0.75, "documents": 9, "tokens": 12345},
        {"name": "books", "weight": 0.25, "documents": 3, "tokens": None},
    ]
    manifest = {"settings": MANIFEST["settings"], "splits": {}}
    origin = Origin(data_manifest=manifest | {"corpora": corpora})
    card = model_card(VALUES, origin)
    _, wiki, books = card.split("| corpus ")
    assert wiki.startswith("wiki | value |\n")
    assert "\n| weight | 0.75 |\n| documents | 9 |\n| tokens | 12,345 |" in wiki
    assert "\n| weight | 0.25 |\n| documents | 3 |\n| tokens | none |" in books
