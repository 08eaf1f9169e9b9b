"""`ablate` at the smallest scale, with small models."""

import dataclasses
import json
import math
import sys

import pytest

import albert_tf
from albert_tf.ablation import runner
from albert_tf.ablation.config import SCALES, AblationConfig
from albert_tf.ablation.run import ablate
from albert_tf.ablation.studies import STUDIES
from albert_tf.ablation.study import Study, StudyRow

ONE_LAYER = {"num_hidden_layers": 1}


@pytest.fixture(scope="module")
def text(text_file, tmp_path_factory):
    """Sixty documents of prose."""
    documents = text_file.read_text("utf-8").split("\n\n\n")[:60]
    path = tmp_path_factory.mktemp("text") / "prose.txt"
    path.write_text("\n\n\n".join(documents), "utf-8")
    return path


@pytest.fixture
def config(text, tmp_path):
    """Returns `make(name, **settings)`: settings for a folder of the test."""

    def make(name, **settings):
        defaults = {
            "input": str(text),
            "text_format": "prose",
            "scale": "smoke",
            "seeds": 1,
        }
        return AblationConfig(output=tmp_path / name, **defaults | settings)

    return make


def scores_of(config):
    """Scores of all runs in a report."""
    report = json.loads((config.output / "report.json").read_text())
    rows = [row for study in report["studies"] for row in study["rows"]]
    return [row["scores"] for row in rows]


@pytest.mark.slow
@pytest.mark.usefixtures("without_graphs")
def test_killed_study_resumes(config, monkeypatch):
    study = STUDIES["sentence_order"].with_rows("NSP", "SOP")
    rows = [dataclasses.replace(row, values=ONE_LAYER) for row in study.rows]
    study = dataclasses.replace(study, rows=tuple(rows))
    trained, pretrain = [], runner.pretrain

    def recorded(config):
        trained.append(config.output)
        return pretrain(config)

    def killed_in_the_second(config):
        if trained:
            raise MemoryError
        return recorded(config)

    whole = ablate(study, config("whole"))
    assert "| SOP " in whole.table()
    rows = whole.studies[0].rows
    assert all(0 <= row.mean("nsp_accuracy") <= 1 for row in rows)

    monkeypatch.setattr(runner, "pretrain", killed_in_the_second)
    with pytest.raises(MemoryError):
        ablate(study, config("killed"))
    (first,) = trained
    monkeypatch.setattr(runner, "pretrain", recorded)
    ablate(study, config("killed"))
    assert trained.count(first) == 1
    assert len(trained) == 2
    assert scores_of(config("killed")) == scores_of(config("whole"))

    trained.clear()
    ablate(study, config("whole"))
    assert trained == []
    with pytest.raises(albert_tf.InputError, match="seeds=1, not 3"):
        ablate("5", config("whole", seeds=3))


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_all_rows_are_scored_on_pairs(config):
    """Also one that was trained on none, and two that are one run."""
    study = Study(
        name="pairs",
        title="Pairs",
        rows=(
            StudyRow("none", values=ONE_LAYER, sentence_order="none"),
            StudyRow("SOP", values=ONE_LAYER),
            StudyRow("SOP again", values=ONE_LAYER),
        ),
        cross_evaluated=True,
    )
    (result,) = ablate(study, config("studies")).studies
    for score in ("sop_accuracy", "nsp_accuracy"):
        assert all(0 <= row.mean(score) <= 1 for row in result.rows)
    assert result.row("SOP").scores == result.row("SOP again").scores


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_runs_that_diverge_are_a_result(config, monkeypatch, tmp_path):
    """They are neither fine-tuned nor trained again."""
    trained, pretrain = [], runner.pretrain

    def diverges(config):
        raise FloatingPointError("the loss is nan; advice")

    def diverges_if_huge(config):
        trained.append(config.output)
        huge = config.model.initializer_range == 1000
        return diverges(config) if huge else pretrain(config)

    monkeypatch.setattr(runner, "pretrain", diverges_if_huge)
    monkeypatch.setattr(runner, "finetune", diverges)
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "fine,good\npoor,bad\n" * 4)
    study = Study(
        name="range",
        title="Range",
        rows=(
            StudyRow("usual", values=ONE_LAYER),
            StudyRow("huge", values={**ONE_LAYER, "initializer_range": 1000}),
        ),
        cross_evaluated=True,
    )
    for times in ("first", "again"):
        ablation = ablate(
            study, config("studies", train=str(table), dev=str(table))
        )
        assert len(trained) == 2, times
        (result,) = ablation.studies
        for score in ("mlm_loss", "mlm_accuracy", "sop_accuracy"):
            assert math.isfinite(result.row("usual").mean(score))
            assert math.isnan(result.row("huge").mean(score))
        for row in result.rows:
            assert math.isnan(row.mean("downstream_accuracy"))
            assert row.failed_runs("downstream_accuracy") == 1
        assert "| huge " in ablation.table()


@pytest.mark.slow
def test_parallel_runs_have_the_same_scores(config, capfd):
    grown = Study(
        name="grown",
        title="Grown",
        rows=(
            StudyRow("1 layer", values=ONE_LAYER),
            StudyRow(
                "2 layers",
                values={"num_hidden_layers": 2},
                grown_from=(ONE_LAYER,),
            ),
        ),
    )
    wide = StudyRow("wide", values={**ONE_LAYER, "intermediate_size": 512})
    own = Study(name="own", title="Own", rows=(wide,))
    scores, printed = [], []
    for num_workers in (1, 2):
        settings = config(str(num_workers), num_workers=num_workers)
        ablate([grown, own], settings)
        scores += scores_of(settings)
        printed.append(capfd.readouterr())
    for one, other in zip(scores[:3], scores[3:], strict=True):
        # Other numbers of threads sum in another order.
        assert other == [pytest.approx(x, rel=1e-4) for x in one]
    for run in ("grown: 1 layer", "grown: 2 layers", "own: wide"):
        assert f"== {run}, seed 0\n" in printed[1].out
    # Lines of parallel runs would be mixed.
    assert ["step 4/4" in x.err for x in printed] == [True, False]
    # The second stage of two layers.
    assert ["step 2/2" in x.err for x in printed] == [True, False]
    assert "step 4/4" in (settings.output / "workers.log").read_text()


@pytest.mark.parametrize("package", ["scipy.stats", "matplotlib"])
def test_missing_packages_are_reported_first(config, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    settings = config("studies")
    install = f"pip install {package.partition('.')[0]}"
    with pytest.raises(albert_tf.InputError, match=install):
        ablate("dropout", settings)
    assert not settings.output.exists()


def test_invalid_model_creates_no_folder(config):
    row = StudyRow("odd", values={"num_attention_heads": 7})
    study = Study(name="heads", title="Heads", rows=(row,))
    settings = config("studies")
    with pytest.raises(albert_tf.InputError, match="num_attention_heads=7"):
        ablate(study, settings)
    assert not settings.output.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [("\n \n", "has no document"), ("One.\nTwo.\n", "has a single document")],
)
def test_too_little_text_creates_no_folder(config, tmp_path, text, message):
    (tmp_path / "own.txt").write_text(text)
    settings = config("studies", input=str(tmp_path / "own.txt"))
    with pytest.raises(albert_tf.InputError, match=message):
        ablate("dropout", settings)
    assert not settings.output.exists()


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("columns", [("text", None, "label"), ("a", "b", "c")])
def test_downstream_scores(config, tmp_path, columns):
    names = [x for x in columns if x]
    rows = [
        ",".join([f"it is {word} {n}"] * (len(names) - 1) + [word])
        for n in range(8)
        for word in ("good", "bad")
    ]
    table = tmp_path / "table.csv"
    table.write_text("\n".join([",".join(names), *rows]) + "\n")
    study = Study(
        name="base",
        title="Base",
        rows=(StudyRow("base", values=ONE_LAYER),),
    )
    settings = config(
        "studies",
        train=str(table),
        dev=str(table),
        text_column=columns[0],
        pair_column=columns[1],
        label_column=columns[2],
    )
    (result,) = ablate(study, settings).studies
    assert result.score == "downstream_accuracy"
    assert 0 <= result.rows[0].mean("downstream_accuracy") <= 1
    run_json = next((settings.output / "classifiers").glob("*/run.json"))
    # The last step is scored, and no other one.
    metrics = run_json.with_name("metrics.jsonl").read_text().splitlines()
    assert sum('"eval"' in line for line in metrics) == 1


@pytest.mark.long
@pytest.mark.usefixtures("without_graphs")
def test_only_the_runs_of_table_5_are_fine_tuned_on_pairs(tmp_path):
    one_layer = [
        dataclasses.replace(
            study,
            claims=(),
            rows=tuple(
                dataclasses.replace(row, values=ONE_LAYER | dict(row.values))
                for row in study.rows
            ),
        )
        for study in (
            STUDIES["dropout"].with_rows("with dropout"),
            STUDIES["sentence_order"].with_rows("SOP"),
        )
    ]
    settings = AblationConfig(
        output=tmp_path / "studies", scale="smoke", seeds=1
    )
    dropout, order = ablate(one_layer, settings).studies
    assert not dropout.has("downstream_accuracy")
    assert order.has("downstream_accuracy")
    assert order.has("nsp_accuracy")


def test_settings_replace_those_of_the_scale(config):
    settings = config("studies", vocab_size=100, num_train_steps=7)
    scale = settings.scale_settings
    assert (scale.vocab_size, scale.num_train_steps) == (100, 7)
    assert scale.base.vocab_size == 100
    assert scale.hidden_size == SCALES["smoke"].hidden_size
    # Other settings need another folder.
    assert settings.settings()["scale_settings"]["vocab_size"] == 100


def test_settings_tell_tables_to_train_on_from_those_to_score(config, tmp_path):
    files = [tmp_path / f"{name}.tsv" for name in "abc"]
    for file in files:
        file.write_text("text\tlabel\n")
    a, b, c = map(str, files)
    tables = [
        config("studies", train=train, dev=dev).settings()
        for train, dev in ((f"{a},{b}", c), (a, f"{b},{c}"))
    ]
    assert tables[0] != tables[1]
