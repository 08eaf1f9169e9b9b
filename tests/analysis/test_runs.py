import json

import pytest

from albert_tf.analysis.runs import LogLine, RunLog, read_runs, run_table


def write(folder, lines, settings=None):
    """Writes (step, time, split, values) as the log of a run."""
    folder.mkdir(parents=True)
    names = ("step", "time", "split", "values")
    (folder / "metrics.jsonl").write_text(
        "".join(
            json.dumps(dict(zip(names, line, strict=True))) + "\n"
            for line in lines
        )
    )
    if settings:
        record = json.dumps({"settings": settings})
        (folder / "run.json").write_text(record)
    return folder


def read(folder):
    (run,) = read_runs([folder])
    return run


RATES = {"examples_per_second": 16.0, "tokens_per_second": 1600.0}
SETTINGS = {"train_batch_size": 32, "num_train_steps": 100}


def test_time_and_tokens_start_at_the_first_step(tmp_path):
    # 2 s a step of 32 examples and 3,200 tokens.
    lines = [
        (10, 1000.0, "train", RATES),
        (20, 1020.0, "train", RATES),
        (20, 1025.0, "eval", {"loss": 1.0}),
        (25, 1035.0, "eval", {"loss": 1.0}),
        (30, 1045.0, "train", RATES | {"tokens_per_second": 800.0}),
    ]
    run = read(write(tmp_path / "run", lines, SETTINGS))
    assert [x.seconds for x in run.lines] == [20.0, 40.0, 45.0, 55.0, 65.0]
    thousands = [line.tokens / 1000 for line in run.lines]
    assert thousands == [32.0, 64.0, 64.0, 80.0, 80.0]
    assert run.num_train_steps == 100
    assert run.points("eval", "loss", "tokens") == [(64e3, 1.0), (80e3, 1.0)]


def test_pauses_are_left_out(tmp_path):
    lines, time = [], 0.0
    for step in range(10, 101, 10):
        time += 10 + (3600 if step == 50 else 0)
        lines.append((step, time, "train", {"loss": 1.0}))
        # Stopped before this evaluation, which was made up for later.
        time += 2 + (7200 if step == 80 else 0)
        lines.append((step, time, "eval", {"loss": 1.0}))
    run = read(write(tmp_path / "run", lines))
    # The log begins at step 10.
    assert run.lines[-1].seconds == pytest.approx(9 * 10 + 10 * 2, abs=0.1)


def test_phases_with_different_batch_sizes(tmp_path):
    later = {"examples_per_second": 0.1, "tokens_per_second": 40.0}
    lines = [
        (10, 1000.0, "train", RATES | {"phase": 1, "loss": 2.0}),
        (20, 1020.0, "train", RATES | {"phase": 1}),
        (25, 1420.0, "train", later | {"phase": 2}),
        (30, 1820.0, "train", later | {"phase": 2, "loss": 1.0}),
        (30, 1830.0, "eval", {"loss": 1.0}),
    ]
    phases = [{"steps": 20}, {"steps": 80, "train_batch_size": 8}]
    settings = SETTINGS | {"phases": phases}
    run = read(write(tmp_path / "run", lines, settings))
    # Forty times longer steps are no pause.
    assert [x.seconds for x in run.lines] == [20.0, 40.0, 440.0, 840.0, 850.0]
    thousands = [line.tokens / 1000 for line in run.lines]
    assert thousands == [32.0, 64.0, 80.0, 96.0, 96.0]
    assert "train, phase 2" in run_table([run])


def test_a_log_without_settings(tmp_path):
    lines = [(10, 5.0, "train", {"loss": 1.0, "accuracy": None})]
    run = read(write(tmp_path / "run", lines))
    assert run.points("train", "loss", "step") == [(10, 1.0)]
    assert run.points("train", "loss", "tokens") == []
    assert run.points("train", "accuracy", "step") == []
    assert run.points("eval", "loss", "step") == []
    assert run.num_train_steps is None


def test_names_are_unique(tmp_path):
    lines = [(10, 5.0, "train", {"loss": 1.0})]
    folders = [
        write(tmp_path / path, lines) for path in ("a/run", "b/run", "b/other")
    ]
    names = [run.name for run in read_runs(folders[1:])]
    assert names == ["run", "other"]
    # With the slash that a shell's completion leaves.
    names = [run.name for run in read_runs([f"{x}/" for x in folders[:2]])]
    assert names == [str(folder) for folder in folders[:2]]


TRAIN = {"loss": 2.0, "mlm_accuracy": 0.3, "tokens_per_second": 1500.0}
RUN = RunLog(
    "first",
    (
        LogLine(10, "train", TRAIN, 60.0, 1e6),
        LogLine(10, "eval", {"loss": 2.5, "mlm_accuracy": 0.3}, 90.0, 1e6),
        LogLine(20, "train", TRAIN | {"loss": 1.0}, 120.0, 2e6),
        LogLine(20, "eval", {"loss": 3.5, "mlm_accuracy": 0.4}, 150.0, 2e6),
    ),
    1000,
)


def rows(*runs, baselines=None):
    table = run_table(runs, baselines).splitlines()
    return [[cell.strip() for cell in row.split("  ") if cell] for row in table]


def test_latest_and_best_scores():
    assert rows(RUN) == [
        "run,scores,step,minutes,tokens,tokens/s,loss,mlm_accuracy".split(","),
        ["first", "held out", "20/1,000", "2.5", "2.0 M", "1,500"]
        + ["3.5000", "0.4000"],
        ["first", "held out, best", "2.5000", "0.4000"],
        ["first", "train", "20/1,000", "2.0", "2.0 M", "1,500"]
        + ["1.0000", "0.3000"],
    ]


def test_latest_scores_are_those_of_the_newest_phase(tmp_path):
    """A phase without sentence order does not have the scores of another."""
    order = {"loss": 3.0, "sop_accuracy": 0.6}
    lines = [
        (5, 10.0, "train", {"phase": 1, "loss": 4.0}),
        (10, 20.0, "train", {"phase": 2, **order}),
        (10, 21.0, "eval", {"loss": 3.5, "sop_accuracy": 0.7}),
        (15, 30.0, "train", {"phase": 3, "loss": 2.0}),
        (15, 31.0, "eval", {"loss": 2.5, "nsp_accuracy": 0.8}),
        # Of one phase, but not on each of its lines.
        (20, 40.0, "train", {"phase": 3, "mlm_accuracy": 0.4}),
    ]
    run = read(write(tmp_path / "run", lines))
    names = "loss", "sop_accuracy", "nsp_accuracy", "mlm_accuracy"
    head, heldout, best, train = run_table([run]).splitlines()
    assert tuple(head.split()[-4:]) == names
    assert heldout.split()[-2:] == ["2.5000", "0.8000"]
    assert best.split()[-3:] == ["2.5000", "0.7000", "0.8000"]
    assert "train, phase 3" in train
    assert train.split()[-2:] == ["2.0000", "0.4000"]


def test_a_run_without_evaluation_and_tokens():
    other = RunLog("other", (LogLine(7, "train", {"loss": 4.0}, 6.0, None),), 9)
    assert rows(RUN, other)[-1] == ["other", "train", "7/9", "0.1", "4.0000"]


def test_shortcuts_of_sentence_order_have_rows():
    values = {"loss": 2.0, "sop_accuracy": 0.6}
    run = RunLog("run", (LogLine(7, "train", values, 6.0, None),), 9)
    known = {"sop_chance": 0.5, "sop_rule": 0.51, "sop_shallow": 0.56}
    lines = run_table([run], known).splitlines()[-3:]
    assert [line.split() for line in lines] == [
        ["chance", "0.5000"],
        ["punctuation", "rule", "0.5100"],
        ["shallow", "classifier", "0.5600"],
    ]
