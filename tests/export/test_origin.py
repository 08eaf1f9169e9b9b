import pathlib
import shutil

import pytest

from albert_tf.exporting.origin import origin_of_checkpoint, origin_of_task
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.interop.open_checkpoint import open_checkpoint


def task_origin(path):
    return origin_of_task(open_model_folder(path))


def checkpoint_origin(path):
    return origin_of_checkpoint(open_checkpoint(path), path)


@pytest.mark.parametrize("part", ["", "model"])
def test_fine_tuned(fine_tuned_run, part):
    origin = task_origin(fine_tuned_run / part)
    assert origin.name == "reviews"
    assert origin.source == "model of albert_tf, fine-tuned for mrpc"
    assert origin.scores == {"f1": 0.75, "accuracy": 0.5}
    assert origin.baselines == {"most frequent label": {"f1": 0.5}}
    assert origin.scored_on == "the development set, by the run"
    # Without flags of libraries, empty flags and folders.
    assert origin.training_flags == {
        "task": "mrpc",
        "rematerialize": "false",
        "learning_rate": "2e-05",
        "init_from": "albert/albert-base-v2",
        "train": "train.tsv,more.tsv",
        "output": "reviews",
        "data": "glue",
    }


def test_fine_tuned_and_moved(fine_tuned_run, tmp_path):
    model = shutil.copytree(fine_tuned_run / "model", tmp_path / "judge")
    origin = task_origin(model)
    assert (origin.name, origin.license) == ("judge", "")
    assert origin.training_flags == {}
    assert origin.scores["f1"] == 0.75


def test_save_pretrained(pretrained, monkeypatch):
    origin = checkpoint_origin(pretrained)
    assert (origin.name, origin.scores) == ("seed-1", {})
    assert "Hugging Face" in origin.source
    monkeypatch.chdir(pretrained)
    assert checkpoint_origin(pathlib.Path()).name == "seed-1"


def test_an_export_has_the_origin_of_its_source(exports):
    source, folder = exports["encoder"]
    origin = checkpoint_origin(source).with_license("Apache-2.0")
    assert checkpoint_origin(folder) == origin


def test_the_license_of_a_model_card():
    assert checkpoint_origin("albert_tiny_en").license == "cc-by-sa-4.0"


@pytest.mark.parametrize(
    ("card", "license"),
    [
        ("---\nlanguage: en\nlicense: mit\n---\n# Model\n", "mit"),
        ("---\nlicense: other\n---\n", ""),
        ("---\nlanguage: en\n---\nlicense: mit\n", ""),
        ("# Model\n\nlicense: mit\n", ""),
        (
            "---\nlicense: mit\n---\n\ud800".encode("utf-8", "surrogatepass"),
            "mit",
        ),
    ],
)
def test_licenses(pretrained, tmp_path, card, license):
    folder = shutil.copytree(pretrained, tmp_path / "model")
    content = card if isinstance(card, bytes) else card.encode()
    (folder / "README.md").write_bytes(content)
    assert checkpoint_origin(folder).license == license
