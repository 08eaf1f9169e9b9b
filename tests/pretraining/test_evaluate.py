import json
import os
import shutil

import pytest

from albert_tf.data.records import open_records
from albert_tf.errors import InputError
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.evaluate import (
    evaluate_checkpoints,
    evaluate_pretraining,
)
from albert_tf.training.checkpoint_files import match_checkpoints
from albert_tf.training.distribution import set_precision
from albert_tf.training.logging import read_metrics


@pytest.fixture(autouse=True)
def float32():
    yield
    set_precision("float32")


@pytest.fixture(scope="module")
def runs(pretrained, tmp_path_factory, edited):
    """Folder with the run `plain`, and `half`: the same in mixed precision."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(pretrained, folder / "plain")
    shutil.copytree(pretrained, folder / "half")
    with edited(folder / "half" / "run.json") as record:
        record["settings"]["precision"] = "mixed_bfloat16"
    return folder


def heldout(records):
    return open_records(records, "heldout")


def logged_scores(run):
    """Step -> scores that training itself logged."""
    lines = read_metrics(run)
    return {x["step"]: x["values"] for x in lines if x["split"] == "eval"}


@pytest.mark.long
def test_scores_of_checkpoints_are_those_logged_in_training(
    runs, records, monkeypatch
):
    made = []
    init = AlbertPretrainer.__init__

    def counting(self, *arguments, **keywords):
        made.append(1)
        init(self, *arguments, **keywords)

    monkeypatch.setattr(AlbertPretrainer, "__init__", counting)
    found = match_checkpoints(f"{runs}/*/checkpoints/step-*")
    opened = heldout(records)
    scored = dict(evaluate_checkpoints(found, opened))
    assert list(scored) == [
        f"{runs}/{run}/checkpoints/step-{step:08d}"
        for run in ("half", "plain")
        for step in (4, 8, 12)
    ]
    # One for each precision.
    assert len(made) == 2
    for path, scores in scored.items():
        run = os.path.dirname(os.path.dirname(path))
        tolerance = 1e-5 if run.endswith("plain") else 1e-2
        for name in ("loss", "mlm_loss"):
            logged = logged_scores(run)[scores["step"]][name]
            assert scores[name] == pytest.approx(logged, rel=tolerance)
        assert scores.items() >= opened.baselines().items()
        assert {"mlm_unigram_accuracy", "sop_chance"} < scores.keys()
    losses = [scores["loss"] for scores in scored.values()]
    assert len(set(losses)) == 6


def test_paths_may_be_relative_to_the_checkpoints(
    runs, records, monkeypatch, eagerly
):
    monkeypatch.chdir(runs / "plain" / "checkpoints")
    found = match_checkpoints("step-00000004")
    with eagerly():
        ((path, scores),) = evaluate_checkpoints(
            found, heldout(records), max_steps=1
        )
    assert (path, scores["step"]) == ("step-00000004", 4)


def test_one_checkpoint_of_a_run(runs, records, eagerly):
    run = runs / "plain"
    logged = logged_scores(run)
    plain = str(records / "heldout-*.tfrecord")
    with eagerly():
        scores = evaluate_pretraining(run, records, checkpoint=4)
        assert scores["loss"] == pytest.approx(logged[4]["loss"], rel=1e-5)
        best = min(logged, key=lambda step: logged[step]["sop_loss"])
        scores = evaluate_pretraining(run, records, checkpoint="best")
        assert evaluate_pretraining(run, plain, checkpoint="best") == scores
    assert scores["step"] == best
    assert 0 < scores["mlm_accuracy"] < 1
    for checkpoint, message in (
        ("last", "checkpoint='last' must be 'newest', 'best' or a step"),
        ("3", "step-00000003: no checkpoint there"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_pretraining(run, records, checkpoint=checkpoint)


@pytest.mark.parametrize("phases", [[], [{"sentence_order": "none"}]])
def test_pairs_are_scored_only_if_any_were_trained(
    runs, records, tmp_path, edited, eagerly, phases
):
    run = shutil.copytree(runs / "plain", tmp_path / "run")
    if phases:
        with edited(run / "run.json") as record:
            phases = [{"steps": 12} | phase for phase in phases]
            record["settings"]["phases"] = phases
    else:
        with edited(run / "data_manifest.json") as manifest:
            manifest["settings"]["sentence_order"] = "none"
    with eagerly():
        scores = evaluate_pretraining(run, records, checkpoint=4, max_steps=1)
        ((_, with_pairs),) = evaluate_checkpoints(
            match_checkpoints(f"{run}/checkpoints/step-00000004"),
            heldout(records),
            max_steps=1,
            score_pairs=True,
        )
    assert not {"sop_loss", "sop_accuracy"} & scores.keys()
    assert scores["loss"] == pytest.approx(scores["mlm_loss"], rel=1e-4)
    assert {"sop_loss", "sop_accuracy"} < with_pairs.keys()


def test_records_with_another_vocabulary_are_an_error(
    runs, records, tmp_path, edited
):
    other = shutil.copytree(records, tmp_path / "other")
    with edited(other / "manifest.json") as manifest:
        manifest["tokenizer"]["fingerprint"] = "0" * 64
    with pytest.raises(InputError, match="different vocabulary than the run"):
        evaluate_pretraining(runs / "plain", other)


@pytest.fixture
def damaged(runs, tmp_path):
    """A copy of `plain` whose checkpoint of step 4 is damaged."""
    shutil.copytree(runs / "plain", tmp_path / "run")
    (data,) = (tmp_path / "run").glob("checkpoints/step-00000004.data*")
    data.write_bytes(data.read_bytes()[:-1000])
    return tmp_path / "run"


def test_records_are_checked_before_any_evaluation(runs, make_records):
    records = heldout(make_records(max_seq_length=96))
    scored = evaluate_checkpoints(match_checkpoints(f"{runs}/plain"), records)
    with pytest.raises(InputError, match="96 tokens per record"):
        next(scored)


def test_command_prints_scores_and_reports_damaged_checkpoints(
    damaged, records, run_albert
):
    # As on a worker of a cluster, whose others do something else.
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    worker = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    result = run_albert(
        *("evaluate", "--json", f"--input={records}"),
        f"--checkpoints={damaged}/checkpoints/step-*",
        env={**os.environ, "TF_CONFIG": json.dumps(worker)},
    )
    scored = [json.loads(line) for line in result.stdout.splitlines()]
    assert [x["step"] for x in scored] == [8, 12]
    assert scored[0]["checkpoint"] == f"{damaged}/checkpoints/step-00000008"
    loss = logged_scores(damaged)[8]["loss"]
    assert scored[0]["loss"] == pytest.approx(loss, rel=1e-5)
    assert result.returncode == 2
    (error,) = result.stderr.splitlines()
    assert "step-00000004 cannot be read" in error
