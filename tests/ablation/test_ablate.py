"""Studies at the smallest scale, through the public function."""

import json

import pytest

import albert_tf
from albert_tf.ablation import runner
from albert_tf.ablation.config import SCALES, AblationConfig
from albert_tf.ablation.studies import STUDIES
from albert_tf.demo.corpora import python_documents


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    documents = ["\n\n".join(text) for _, text in python_documents(["numpy"])]
    path = tmp_path_factory.mktemp("text") / "numpy.txt"
    path.write_text("\n\n\n".join(documents[:60]), "utf-8")
    return path


def scores_of(folder):
    """Scores of all runs, but for the time they took."""
    report = json.loads((folder / "report.json").read_text())
    return [
        [
            {name: x for name, x in seed.items() if name != "seconds"}
            for seed in row["scores"]
        ]
        for study in report["studies"]
        for row in study["rows"]
    ]


@pytest.mark.long
def test_killed_study_goes_on(text, tmp_path, monkeypatch):
    def config(name, **changes):
        values = {"scale": "smoke", "seeds": 1, "input": str(text)} | changes
        return AblationConfig(output=tmp_path / name, **values)

    study = STUDIES["sentence_order"].with_rows("NSP", "SOP")
    whole = albert_tf.ablate(study, config("whole"))
    assert "| SOP " in whole.table()
    rows = whole.studies[0].rows
    assert all(0 <= row.mean("nsp_accuracy") <= 1 for row in rows)

    finished = []
    pretrain = runner.pretrain

    def killed_in_the_second(config):
        if len(finished) == 1:
            raise MemoryError
        finished.append(config.output)
        return pretrain(config)

    monkeypatch.setattr(runner, "pretrain", killed_in_the_second)
    with pytest.raises(MemoryError):
        albert_tf.ablate(study, config("killed"))
    monkeypatch.setattr(runner, "pretrain", pretrain)
    again = []
    monkeypatch.setattr(
        runner, "pretrain", lambda x: again.append(x.output) or pretrain(x)
    )
    albert_tf.ablate(study, config("killed"))
    assert finished[0] not in again
    assert scores_of(tmp_path / "killed") == scores_of(tmp_path / "whole")

    again.clear()
    albert_tf.ablate(study, config("whole"))
    assert again == []
    with pytest.raises(albert_tf.InputError, match="seeds=1, not 3"):
        albert_tf.ablate("5", config("whole", seeds=3))


@pytest.mark.long
def test_runs_at_a_time(text, tmp_path, capfd):
    depth = STUDIES["depth"].with_rows("1 layer", "3 layers")
    wide = albert_tf.StudyRow("wide", values={"intermediate_size": 512})
    own = albert_tf.Study(name="own", title="Own", rows=(wide,))
    scores, printed = [], []
    for num_workers in (1, 2):
        config = AblationConfig(
            output=tmp_path / str(num_workers),
            input=str(text),
            scale="smoke",
            seeds=1,
            num_workers=num_workers,
        )
        albert_tf.ablate([depth, own], config)
        scores += scores_of(config.output)
        printed.append(capfd.readouterr())
    for one, other in zip(scores[:3], scores[3:], strict=True):
        # Other threads sum in another order.
        assert other == [pytest.approx(x, rel=1e-4) for x in one]
    for run in ("depth: 1 layer", "depth: 3 layers", "own: wide"):
        assert f"== {run}, seed 0\n" in printed[1].out
    # Lines of several runs would be mixed.
    assert ["step 4/4" in x.err for x in printed] == [True, False]
    assert "step 4/4" in (tmp_path / "2" / "workers.log").read_text()


def test_impossible_model_claims_no_folder(tmp_path):
    row = albert_tf.StudyRow("odd", values={"num_attention_heads": 7})
    study = albert_tf.Study(name="heads", title="Heads", rows=(row,))
    config = AblationConfig(output=tmp_path / "studies", scale="smoke")
    with pytest.raises(albert_tf.InputError, match="num_attention_heads=7"):
        albert_tf.ablate(study, config)
    assert not (tmp_path / "studies").exists()


@pytest.mark.long
def test_downstream_scores(text, tmp_path):
    for name in ("train", "dev"):
        rows = [
            f"it is {x} {n},{x}\n" for n in range(8) for x in ("good", "bad")
        ]
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(rows))
    config = AblationConfig(
        output=tmp_path / "studies",
        input=str(text),
        scale="smoke",
        seeds=1,
        train=str(tmp_path / "train.csv"),
        dev=str(tmp_path / "dev.csv"),
    )
    base = albert_tf.Study(
        name="base", title="Base", rows=(albert_tf.StudyRow("base"),)
    )
    (result,) = albert_tf.ablate(base, config).studies
    assert result.score == "downstream_accuracy"
    assert 0 <= result.rows[0].mean("downstream_accuracy") <= 1


def test_settings_replace_those_of_the_scale(tmp_path):
    config = AblationConfig(
        output=tmp_path, scale="smoke", vocab_size=100, num_train_steps=7
    )
    scale = config.scale_settings
    assert (scale.vocab_size, scale.num_train_steps) == (100, 7)
    assert scale.base.vocab_size == 100
    assert scale.hidden_size == SCALES["smoke"].hidden_size
    # Another setting needs another folder.
    assert config.settings()["scale_settings"]["vocab_size"] == 100
