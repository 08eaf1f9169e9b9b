"""Several calls of `ablate` with one folder, without training."""

import json
import types

import numpy as np
import pytest

from albert_tf.ablation import runner
from albert_tf.ablation.config import AblationConfig
from albert_tf.ablation.data import StudyData
from albert_tf.ablation.folder_studies import study_from_json, study_json
from albert_tf.ablation.run import ablate
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import Study, StudyClaim, StudyRow
from albert_tf.errors import InputError

HEADS = Study(
    name="heads",
    title="Attention heads",
    rows=(
        StudyRow("one head", values={"num_attention_heads": np.int64(1)}),
        StudyRow(
            "projected",
            factors=types.MappingProxyType({"embedding_size": 2}),
            values={"project_equal_sizes": True},
            grown_from=({"num_hidden_layers": 1},),
        ),
    ),
    claims=(StudyClaim("It is better.", "projected", 6, score="mlm_loss"),),
)


@pytest.fixture
def config(tmp_path):
    """Settings of a folder whose runs are long enough to be judged."""
    text = tmp_path / "text.txt"
    text.write_text(
        "\n\n".join(f"A cat saw {n} dogs.\nIt ran." for n in range(100))
    )
    return AblationConfig(
        output=tmp_path / "studies",
        input=str(text),
        seeds=5,
        vocab_size=60,
        num_train_steps=2,
    )


@pytest.fixture(autouse=True)
def trained(monkeypatch):
    """Replaces training: dropout hurts, and two groups are a bit better."""
    folders = []

    def pretrain(config):
        loss = 5 + 0.1 * config.seed + config.model.hidden_dropout_prob
        loss -= 0.2 * (config.model.num_hidden_groups - 1)
        scores = {"mlm_loss": loss, "mlm_accuracy": 0.99, "sop_accuracy": 0.5}
        folders.append(config.output)
        return types.SimpleNamespace(
            interrupted=False, evaluations={config.num_train_steps: scores}
        )

    monkeypatch.setattr(runner, "pretrain", pretrain)
    monkeypatch.setattr(StudyData, "plateau_accuracy", lambda self, order: 0.3)
    return folders


def reported(config):
    """The names of the studies in both files of the report."""
    text = (config.output / "report.md").read_text("utf-8")
    studies = json.loads((config.output / "report.json").read_text())["studies"]
    names = [study["study"] for study in studies]
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert [head.split("`")[1] for head in heads] == names
    return names


def edit_record(config, change):
    """Applies `change` to the settings in the folder's record."""
    file = config.output / "run.json"
    record = json.loads(file.read_text())
    change(record["settings"])
    file.write_text(json.dumps(record))


def test_studies_that_are_added_are_reported_and_corrected_together(
    config, trained, caplog
):
    alone = ablate("groups", config)
    assert alone.verdicts[0][0].evidence.endswith("p = 0.081")
    both = ablate("dropout", config)
    assert reported(config) == ["groups", "dropout"]
    # Holm's method doubles the smaller p-value.
    p_values = [x.evidence.rpartition("p = ")[2] for (x,) in both.verdicts]
    assert p_values == ["0.161", "0.347"]
    ablate(HEADS, config)
    count = len(trained)
    again = ablate("groups", config)
    assert reported(config) == ["groups", "dropout", "heads"]
    assert len(trained) == count
    studies = [STUDIES["groups"], STUDIES["dropout"], HEADS]
    assert [x.study for x in again.studies] == studies
    assert not caplog.records


def test_studies_that_are_not_finished_are_left_out_with_a_warning(
    config, monkeypatch, caplog
):
    def killed(config):
        if config.model.hidden_dropout_prob:
            raise MemoryError
        return pretrain(config)

    pretrain = runner.pretrain
    monkeypatch.setattr(runner, "pretrain", killed)
    with pytest.raises(MemoryError):
        ablate("dropout", config)
    ablate("groups", config)
    assert reported(config) == ["groups"]
    assert caplog.messages == [
        "study dropout is left out of the report: 5 of its runs are not "
        "finished; run it again to add it"
    ]
    caplog.clear()
    monkeypatch.setattr(runner, "pretrain", pretrain)
    ablate("dropout", config)
    assert reported(config) == ["dropout", "groups"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("title", 5, "run.json: title=5 must be a string"),
        ("rows", [{"name": "a", "new": 1}], "recorded by another version: "),
        (
            "rows",
            [{"name": "a", "values": {"hidden_size": -1}}],
            "hidden_size=-1 must be",
        ),
    ],
)
def test_records_that_do_not_fit_are_left_out_with_a_warning(
    config, caplog, name, value, problem
):
    ablate("groups", config)
    edit_record(
        config,
        lambda settings: settings["studies"].update(
            own={"title": "Own", "rows": [{"name": "a"}], name: value}
        ),
    )
    ablate("groups", config)
    assert reported(config) == ["groups"]
    (message,) = caplog.messages
    assert message.startswith("study own is left out of the report: ")
    assert problem in message


@pytest.mark.parametrize(
    "study", [*STUDIES.values(), HEADS], ids=lambda x: x.name
)
def test_definitions_are_recorded_as_json(study):
    values = json.loads(json.dumps(study_json(study)))
    assert study_from_json(study.name, values) == study


def test_what_is_no_definition():
    with pytest.raises(InputError, match="the object lacks 'title'"):
        study_from_json("own", {})
