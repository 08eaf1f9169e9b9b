"""Runs from tables to model folders: resumed, repeated, refused."""

import csv
import dataclasses
import json
import os
import shutil
import signal
import time

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import labelled_examples
from albert_tf.finetuning.finetune import finetune, task_and_files
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.results import FinetuneResult, RunsResult
from albert_tf.finetuning.run import open_runs
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.text_classification.task import TextClassification
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.training.logging import read_metrics
from albert_tf.training.run_folder import lock_output


@pytest.fixture(scope="module")
def files(task_files):
    return [task_files["classes"]]


@pytest.fixture(scope="module")
def task_config(task_of):
    return task_of("classes", max_seq_length=32)


@pytest.fixture(scope="module")
def settings(checkpoint, files, task_config):
    """Returns `make(folder, steps, **changes)`: the settings of a run."""

    def make(folder, steps=8, **changes):
        return FinetuneConfig(
            **{
                "task": task_config,
                "train": files,
                "dev": files,
                "output": folder,
                "init_from": checkpoint,
                "num_train_steps": steps,
                "eval_steps": 4,
                "save_checkpoints_steps": 4,
                "log_steps": 4,
                "seed": 3,
                "train_batch_size": 8,
                "learning_rate": 2e-3,
                **changes,
            }
        )

    return make


@pytest.fixture(autouse=True, scope="module")
def _eagerly(eagerly):
    with eagerly():
        yield


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    result = finetune(
        settings(folder),
        callbacks=[keras.callbacks.CSVLogger(folder.with_name("log.csv"))],
    )
    return folder, result.best


def test_callbacks_have_the_scores_of_each_evaluation(run):
    folder, _ = run
    with open(folder.with_name("log.csv")) as file:
        rows = list(csv.DictReader(file))
    scores = [
        line["values"]["accuracy"]
        for line in read_metrics(folder)
        if line["split"] == "eval"
    ]
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert [float(row["val_accuracy"]) for row in rows] == scores


def test_the_model_is_the_best_of_the_evaluations(run, files, task_config):
    folder, result = run
    scores = {
        line["step"]: line["values"]
        for line in read_metrics(folder)
        if line["split"] == "eval"
    }
    assert set(scores) == {4, 8}
    # Of equal scores, the one with the lower loss.
    best = max(
        scores, key=lambda x: (scores[x]["accuracy"], -scores[x]["loss"])
    )
    assert result.step == best
    assert result.scores == scores[best]
    # The saved model has the same scores.
    examples = labelled_examples(make_task_type(task_config), files)
    predictor = Predictor([folder])
    predictions = predictor.predict_examples(examples).predictions
    again = predictor.task_type.scores(examples, predictions)
    assert again == pytest.approx(result.scores, rel=1e-5)
    task_config = open_model_folder(folder).task_config
    assert task_config.scores == result.scores
    assert task_config.labels == ("maybe", "no", "yes")


def test_scores_are_written_beside_baselines(run, files, task_config):
    folder, result = run
    found = json.loads((folder / "eval.json").read_text())
    assert found["step"] == result.step
    assert found["scores"] == result.scores
    assert found["examples"] == 32
    task_type = make_task_type(task_config)
    examples = labelled_examples(task_type, files)
    assert found["baselines"] == task_type.baselines(examples, examples)
    written = open_model_folder(folder).task_config
    assert written.baselines == found["baselines"]


def test_a_metric_that_the_log_lacks_is_evaluated(
    run, settings, task_config, tmp_path
):
    folder = shutil.copytree(run[0], tmp_path / "run")
    metrics = ["accuracy", "matthews"]
    again = finetune(settings(folder, metrics=metrics)).best
    assert again.step == run[1].step
    assert list(again.scores) == [*metrics, "loss"]
    shared = {name: again.scores[name] for name in run[1].scores}
    assert shared == pytest.approx(run[1].scores, rel=1e-5)
    assert open_model_folder(folder).task_config.scores == again.scores


def test_the_best_error_is_the_lowest(settings, tmp_path, monkeypatch):
    """As if a task type declared the accuracy to be one."""
    errors = ("accuracy",)
    monkeypatch.setattr(TextClassification, "lower_is_better", errors)
    result = finetune(settings(tmp_path / "run", eval_steps=2)).best
    scores = [x["accuracy"] for x in result.training.evaluations.values()]
    assert len({*scores}) > 1
    assert result.scores["accuracy"] == min(scores)


class _Signal(keras.callbacks.Callback):
    """Sends a signal during the last evaluation of each run."""

    def on_epoch_end(self, epoch, logs=None):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)


def test_no_run_is_started_after_a_signal(settings, tmp_path, capfd):
    config = settings(tmp_path, 1, eval_steps=1, runs=3)
    for count in (1, 2):
        result = finetune(config, callbacks=[_Signal()])
        assert list(result.results) == [f"run-{n}" for n in range(count)]
        assert result.interrupted
        assert not (tmp_path / "runs.json").exists()
        assert (tmp_path / f"run-{count - 1}" / "model").exists()
        said = capfd.readouterr().err
        assert f"Stopped before {'2 runs' if count == 1 else '1 run'};" in said


def test_a_run_ends_in_time(settings, tmp_path):
    folder = tmp_path / "run"
    config = settings(folder, 500, max_minutes=1e-4, steps_per_loop=1)
    result = finetune(config).best
    steps = result.training.steps
    assert steps < 10
    assert (folder / "model").exists()
    evaluated = [x for x in read_metrics(folder) if x["split"] == "eval"]
    assert evaluated[-1]["step"] == steps
    again = finetune(config).best  # It has ended.
    assert (again.step, again.scores) == (result.step, result.scores)


def test_half_of_dev_selects_and_the_other_half_is_scored(
    run, settings, tmp_path
):
    folder = tmp_path / "run"
    config = settings(folder, dev_selection="half")
    result = finetune(config).best
    logged = {
        line["step"]: line["values"]
        for line in read_metrics(folder)
        if line["split"] == "eval"
    }
    # The same weights as those of the run that evaluates all of dev.
    for line in read_metrics(run[0]):
        if line["split"] == "eval":
            found = logged[line["step"]]
            both = (found["accuracy"] + found["held_half_accuracy"]) / 2
            assert both == pytest.approx(line["values"]["accuracy"])
    assert result.step == max(
        logged, key=lambda x: (logged[x]["accuracy"], -logged[x]["loss"])
    )
    held = logged[result.step]["held_half_accuracy"]
    record = json.loads((folder / "eval.json").read_text())
    assert record["dev_selection"] == "half"
    assert record["examples"] == 16
    assert record["scores"]["accuracy"] == result.scores["accuracy"] == held
    config = settings(tmp_path / "b", dev=None, dev_selection="half")
    with pytest.raises(InputError, match="needs a development set"):
        finetune(config)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("classes", {"class_weights": {"never": 2.0}}, "'never' is not one of"),
        ("choices", {"class_weights": [1.0]}, "class_weights=.* multiple_choi"),
        ("number", {"label_smoothing": 0.1}, "label_smoothing=0.1: .* regress"),
        ("spans", {"label_smoothing": 0.1}, "type question_answering do not"),
    ],
)
def test_settings_of_the_loss_fit_the_task(
    settings, task_files, task_of, kind, changes, message, tmp_path
):
    lengths = {"max_seq_length": 64, "max_qa_length": 32}
    lengths |= {"doc_stride": 16, "max_query_length": 16}
    changes |= {"task": task_of(kind, **lengths), "train": task_files[kind]}
    config = settings(tmp_path / "run", dev=None, **changes)
    with pytest.raises(InputError, match=message):
        open_runs([config], *task_and_files(config))


def test_regression_starts_at_the_mean_label(
    settings, task_files, task_of, tmp_path
):
    path = task_files["number"]
    task = task_of("number", max_seq_length=32)
    config = settings(tmp_path / "run", task=task, train=path, dev=None)
    [opened] = open_runs([config], *task_and_files(config))
    labels = [
        float(line.rpartition(",")[2])
        for line in path.read_text().splitlines()[1:]
    ]
    [bias] = opened.make_model().classifier_head.bias.numpy()
    assert bias == pytest.approx(np.mean(labels), rel=1e-6)


def test_the_head_is_not_that_of_pretraining_with_the_same_seed(
    settings, tmp_path
):
    """The pooled output is trained to suit that one."""
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "good,1\nbad,0\n" * 8)
    tuned = settings(
        tmp_path / "run",
        steps=1,
        eval_steps=1,
        task="text",
        train=[str(table)],
        dev=[str(table)],
        learning_rate=1e-12,
        max_seq_length=16,
    )
    finetune(tuned)
    classifier = AlbertClassifier.from_pretrained(tmp_path / "run" / "model")
    keras.utils.set_random_seed(tuned.seed)
    pretrainer = AlbertPretrainer(classifier.config)
    [head, other] = (
        next(x for x in model.weights if x.path == path)
        for model, path in (
            (classifier, "classifier_head/kernel"),
            (pretrainer, "sop_head/kernel"),
        )
    )
    assert head.shape == other.shape
    assert abs(np.corrcoef(np.ravel(head), np.ravel(other))[0, 1]) < 0.5


def test_resumed_run_ends_with_the_same_model(
    run, settings, checkpoint, tmp_path
):
    done, result = run
    folder = tmp_path / "run"
    # As if stopped after the first checkpoint.
    shutil.copytree(done, folder)
    shutil.rmtree(folder / "model")
    for path in (folder / "checkpoints").glob("step-00000008*"):
        path.unlink()
    (folder / "checkpoints" / "best.json").unlink(missing_ok=True)
    again = finetune(settings(folder)).best
    assert again.scores == result.scores
    ours, theirs = (
        AlbertClassifier.from_pretrained(path / "model")
        for path in (done, folder)
    )
    assert ours.labels == ("maybe", "no", "yes")
    assert ours.tokenizer is not None
    for a, b in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), a.path)


def test_runs_of_earlier_versions_are_resumed(run):
    """Their `run.json` has these settings, and no others."""
    found = json.loads((run[0] / "run.json").read_text())["settings"]
    assert " ".join(found) == (
        "num_train_steps max_minutes gradient_accumulation_steps seed "
        "clip_norm ema_decay jit_compile steps_per_loop eval_steps "
        "save_checkpoints_steps save_checkpoints_minutes keep_checkpoint_max "
        "best_metric early_stopping_patience log_steps log_update_norms "
        "skip_batches max_loss dynamic_loss_scale train_batch_size "
        "eval_batch_size learning_rate layerwise_lr_decay optimizer "
        "weight_decay bias_correction precision rematerialize init_from "
        "head_dropout num_train_epochs num_warmup_steps warmup_proportion "
        "schedule class_weights label_smoothing temperature dev_selection "
        "model data"
    )
    names = "version task tokenizer settings files dev_files"
    assert " ".join(found["data"]) == names


def test_untrained_positions_start_as_copies(
    settings, checkpoint, tmp_path, caplog, capsys
):
    """Whether or not it is a run's, which opens with copies."""
    model = AlbertEncoder.from_pretrained(checkpoint)
    positions = model.config.max_position_embeddings
    short = AlbertEncoder(model.config.replace(trained_positions=8))
    short.set_weights(model.get_weights())
    short.save_pretrained(tmp_path / "short", model.tokenizer)
    config = settings(tmp_path / "run", 1, init_from=tmp_path / "short")
    (run,) = open_runs([config], *task_and_files(config))
    assert "max_seq_length=32, but the model was" in caplog.text
    longest = int(run.data.train.lengths.max())
    assert 8 < longest <= 32
    started = run.make_model()
    rows = np.asarray(started.encoder.embeddings.position_embeddings)
    np.testing.assert_array_equal(rows, rows[np.arange(positions) % 8])
    finetune(config)
    assert f"8 of {positions} are trained; the rows" in capsys.readouterr().err
    tuned = AlbertClassifier.from_pretrained(tmp_path / "run" / "model")
    assert tuned.config.trained_positions == longest
    # What it has trained is kept by the next run.
    config = settings(tmp_path / "next", 1, init_from=tmp_path / "run")
    (run,) = open_runs([config], *task_and_files(config))
    again = np.asarray(run.make_model().encoder.embeddings.position_embeddings)
    rows = np.asarray(tuned.encoder.embeddings.position_embeddings)
    assert not np.array_equal(rows[8:longest], rows[np.arange(8, longest) % 8])
    np.testing.assert_array_equal(again, rows)


def test_resuming_with_other_settings_is_refused(
    run, settings, files, tmp_path
):
    folder, _ = run
    with pytest.raises(InputError, match="learning_rate=0.002, not 0.001"):
        finetune(settings(folder, learning_rate=1e-3))
    with pytest.raises(
        InputError, match="data.settings.max_seq_length=32, not 16"
    ):
        finetune(settings(folder, max_seq_length=16))
    other_dev = tmp_path / files[0].name
    lines = files[0].read_text().splitlines(keepends=True)
    other_dev.write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match="on other development files"):
        finetune(settings(folder, dev=other_dev))


@pytest.mark.parametrize(
    ("metric", "best", "median"),
    [("pearson", "run-2", 0.5), ("closeness_loss", "run-1", 0.5)],
)
def test_undefined_scores_are_never_best(metric, best, median):
    result = RunsResult(
        metric=metric,
        results={
            f"run-{i}": FinetuneResult(
                training=None, step=1, scores={metric: x}
            )
            for i, x in enumerate((float("nan"), 0.4, 0.6))
        },
    )
    record = json.loads(result.to_json(), parse_constant=pytest.fail)
    assert (record["best"], record["median"]) == (best, median)
    assert record["runs"]["run-0"] == {metric: None}
    assert f"{metric}: median 0.5000 of 2 runs" in result.summary()


@pytest.mark.long
def test_several_runs_record_median_and_best(settings, tmp_path):
    result = finetune(settings(tmp_path, 4, runs=2))
    scores = list(result.scores.values())
    assert list(result.results) == ["run-0", "run-1"]
    record = json.loads((tmp_path / "runs.json").read_text())
    assert record["median"] == pytest.approx(sum(scores) / 2)
    # Equal accuracies are told apart by the loss.
    losses = [found.scores["loss"] for found in result.results.values()]
    keys = list(zip(scores, [-loss for loss in losses], strict=True))
    best = "run-0" if keys[0] >= keys[1] else "run-1"
    assert open_model_folder(tmp_path).path == tmp_path / best / "model"
    seeds = [
        json.loads((tmp_path / name / "run.json").read_text())["settings"][
            "seed"
        ]
        for name in result.results
    ]
    assert seeds == [3, 4]


@pytest.mark.long
def test_without_a_development_set_the_last_weights_are_kept(
    settings, tmp_path
):
    result = finetune(settings(tmp_path / "run", 2, dev=None)).best
    assert result.step == 2
    assert result.scores == {}
    config = settings(
        tmp_path / "other", 2, dev=None, early_stopping_patience=1
    )
    with pytest.raises(InputError, match="early_stopping_patience"):
        finetune(config)


def test_bad_examples_stop_before_anything_is_written_or_are_skipped(
    settings, files, tmp_path, capsys
):
    good = files[0].read_text()
    path = tmp_path / "bad.tsv"
    path.write_text(good + "a\tb\tperhaps\n")
    config = settings(tmp_path / "run", 1, train=path)
    with pytest.raises(InputError, match=r"bad.tsv:34: label 'perhaps'"):
        finetune(config)
    assert not (tmp_path / "run").exists()
    config = dataclasses.replace(config, on_bad_example="skip")
    [opened] = open_runs([config], *task_and_files(config))
    assert opened.data.train.num_examples == len(good.splitlines()) - 1
    said = capsys.readouterr().err
    assert "1 bad example left out\n" in said
    assert "bad.tsv:34: label 'perhaps'" in said


def test_folders_of_several_runs_are_checked_before_the_first(
    settings, tmp_path
):
    folder = tmp_path / "runs" / "all"
    config = settings(folder)
    second = folder / "run-1"
    with lock_output(second, second / ".lock"):
        with pytest.raises(InputError, match=f"run-1 is .* {os.getpid()} on"):
            finetune(dataclasses.replace(config, runs=2))
    assert not folder.parent.exists()
    second.mkdir(parents=True)
    for path in (second / "thesis.tex", folder / "thesis.tex"):
        path.touch()
        with pytest.raises(InputError, match="contains thesis.tex"):
            finetune(dataclasses.replace(config, runs=2))
        path.unlink()
    assert [path.name for path in folder.iterdir()] == ["run-1"]
    with pytest.raises(InputError, match="contains run-1"):
        finetune(config)
    # Neither does the folder of one run take several.
    (folder / "run.json").touch()
    with pytest.raises(InputError, match="contains run.json"):
        finetune(dataclasses.replace(config, runs=2))
