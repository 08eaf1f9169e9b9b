import shutil

import pytest

from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.export_checkpoint import export_checkpoint
from albert_tf.tasks.exporting.origins import origin_of

LICENSED = ExportConfig(licence="Apache-2.0")


@pytest.mark.parametrize("part", ["", "model"])
def test_fine_tuned(fine_tuned_run, part):
    origin = origin_of(fine_tuned_run / part, LICENSED)
    assert origin.name == "reviews"
    assert origin.source == "model of albert_tf, fine-tuned for mrpc"
    assert origin.scores == {"f1": 0.75, "accuracy": 0.5}
    assert origin.scored_on == "the development set, by the run"
    assert origin.licence == "Apache-2.0"
    # Without those of libraries, empty ones, and where things were.
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
    origin = origin_of(model, ExportConfig())
    assert (origin.name, origin.licence) == ("judge", "")
    assert origin.training_flags == {}
    assert origin.scores["f1"] == 0.75


def test_save_pretrained(pretrained, monkeypatch):
    origin = origin_of(pretrained, ExportConfig())
    assert (origin.name, origin.scores) == ("seed-1", {})
    assert "Hugging Face" in origin.source
    monkeypatch.chdir(pretrained)
    assert origin_of(".", ExportConfig()).name == "seed-1"


def test_an_export_tells_on_what_it_was_told(fine_tuned_run, tmp_path):
    export_checkpoint(fine_tuned_run, tmp_path / "e", "encoder", LICENSED)
    first = origin_of(fine_tuned_run, LICENSED)
    assert origin_of(tmp_path / "e", ExportConfig()) == first
