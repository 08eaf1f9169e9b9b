import contextlib
import io
import math
import sys
import time

import pytest

from albert_tf.training.config import TrainingConfig
from albert_tf.training.logging import (
    MetricsLog,
    TrainingLog,
    read_events,
    read_metrics,
)
from albert_tf.training.progress import Progress


def events(folder):
    """(split, step, name, value) of all event files, in TensorBoard's order."""
    return [
        (path.parent.name, event.step, value.tag, value.simple_value)
        for path in sorted(folder.glob("tensorboard/*/*.tfevents.*"))
        for event in read_events(path)
        for value in event.summary.value
    ]


def test_lines_and_events_hold_the_same(tmp_path):
    with contextlib.closing(MetricsLog(tmp_path)) as log:
        log.write(10, "train", {"loss": 2.0, "accuracy": 0.5})
        log.write(10, "eval", {"loss": 3.0})
    lines = read_metrics(tmp_path)
    assert [(x["step"], x["split"], x["values"]) for x in lines] == [
        (10, "train", {"loss": 2.0, "accuracy": 0.5}),
        (10, "eval", {"loss": 3.0}),
    ]
    assert all(x["time"] > 1.6e9 for x in lines)
    assert sorted(events(tmp_path)) == [
        ("eval", 10, "loss", 3.0),
        ("train", 10, "accuracy", 0.5),
        ("train", 10, "loss", 2.0),
    ]


def test_resuming_truncates_the_log(tmp_path):
    with contextlib.closing(MetricsLog(tmp_path)) as log:
        for step in (10, 20, 30):
            log.write(step, "train", {"loss": float(step)})
    with contextlib.closing(MetricsLog(tmp_path, step=20)) as log:
        log.write(30, "train", {"loss": -30.0})
    curve = [(10, 10.0), (20, 20.0), (30, -30.0)]
    lines = read_metrics(tmp_path)
    assert [(x["step"], x["values"]["loss"]) for x in lines] == curve
    assert [(step, value) for _, step, _, value in events(tmp_path)] == curve


def test_unfinished_line_and_event_are_passed_over(tmp_path):
    with contextlib.closing(MetricsLog(tmp_path)) as log:
        log.write(10, "train", {"loss": 1.0})
        log.write(20, "train", {"loss": 2.0})
    (event_file,) = tmp_path.glob("tensorboard/*/*")
    for path in (tmp_path / "metrics.jsonl", event_file):
        path.write_bytes(path.read_bytes()[:-4])
    assert [x["step"] for x in read_metrics(tmp_path)] == [10]
    with contextlib.closing(MetricsLog(tmp_path, step=20)) as log:
        log.write(30, "train", {"loss": 3.0})
    assert [x["step"] for x in read_metrics(tmp_path)] == [10, 30]
    assert [step for _, step, *_ in events(tmp_path)] == [10, 30]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_values_are_null(tmp_path, value):
    with contextlib.closing(MetricsLog(tmp_path)) as log:
        log.write(1, "eval", {"f1": value})
    assert '"f1": null' in (tmp_path / "metrics.jsonl").read_text()


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"step": 15, "time": 1, "split": "train"}',
        b'{"step": "15", "time": 1, "split": "train", "values": {}}',
        b'{"step": 15, "time": 1, "split": 3, "values": {}}',
        b'{"step": 15, "time": null, "split": "train", "values": {}}',
        b'{"step": 15, "time": 1, "split": "train", "values": [1]}',
        b'{"step": 15, "time": 1, "split": "train", "values": {"x": "y"}}',
    ],
)
def test_line_that_cannot_be_read_is_skipped_and_kept(tmp_path, bad, caplog):
    path = tmp_path / "metrics.jsonl"
    lines = [
        b'{"step": %d, "time": 1.5, "split": "train", "values": {"x": null}}'
        % step
        for step in (10, 20, 30)
    ]
    path.write_bytes(b"\n".join([lines[0], bad, *lines[1:], b""]))
    assert [x["step"] for x in read_metrics(tmp_path)] == [10, 20, 30]
    assert "metrics.jsonl:2" in caplog.text
    MetricsLog(tmp_path, step=20).close()
    assert path.read_bytes().split(b"\n") == [lines[0], bad, lines[1], b""]


METRICS = {
    "loss": 2.5,
    "mlm_accuracy": 0.25,
    "mlm_loss": 2.0,
    "gradient_norm": 1.0,
    "tokens_per_second": 1234.0,
    "gflops_per_second": 61.4,
    "input_wait_share": 0.031,
}


@pytest.fixture
def clock(monkeypatch):
    """Sets the time that `time.monotonic` tells, in seconds."""

    def set_time(seconds):
        monkeypatch.setattr(time, "monotonic", lambda: seconds)

    set_time(0.0)
    return set_time


def test_terminal_gets_one_live_line(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(num_train_steps=100, step=40)
    progress.advance(10)
    progress.report(50, "train", METRICS)
    progress.report(50, "eval", {"loss": 3.5, "mlm_accuracy": 0.2})
    progress.close()
    text = terminal.getvalue()
    live = text.split("\r")[-1]
    assert live.startswith("step 50/100, 00:")
    shown = "loss 2.5, mlm 25.0%, 1,234 tokens/s, 61.4 GFLOP/s, 3% wait"
    assert f" left, {shown} |" in live
    assert "step 50, eval: loss 3.5, mlm_accuracy 0.2\n" in text
    assert text.count("\n") == 2


def test_narrow_terminal_loses_the_bar_first(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(num_train_steps=100)
    progress._bar.ncols = 80
    progress._bar.dynamic_ncols = False
    progress.report(50, "train", METRICS)
    progress.close()
    live = terminal.getvalue().split("\r")[-1].rstrip("\n")
    assert len(live) <= 80
    assert "61.4 GFLOP/s" in live


def test_file_gets_a_line_a_report(capsys, clock):
    progress = Progress(num_train_steps=100, step=40)
    clock(20.0)
    progress.advance(10)
    progress.report(50, "train", METRICS)
    progress.report(50, "eval", {"loss": 3.5})
    progress.close()
    assert capsys.readouterr().err.splitlines() == [
        "step 50/100, train: loss 2.5, mlm_accuracy 0.25, mlm_loss 2, "
        "1,234 tokens/s, 61.4 GFLOP/s, 3% input wait, 01:40 left",
        "step 50/100, eval: loss 3.5",
    ]


def test_time_left_forgets_the_first_report_and_counts_evaluations(
    capsys, clock
):
    progress = Progress(num_train_steps=1000)
    # 100 s to compile and 10 steps; then 1 s a step and 10 s of evaluation.
    for step, seconds in ((10, 100), (20, 120), (30, 140)):
        clock(seconds)
        progress.report(step, "train", {"loss": 1.0})
        progress.report(step, "eval", {"loss": 1.0})
    train = capsys.readouterr().err.splitlines()[::2]
    left = [line.split(", ")[-1] for line in train]
    # 990 steps of 10 s; 980 and 970 of 2 s.
    assert left == ["2:45:00 left", "32:40 left", "32:20 left"]


@pytest.mark.parametrize("chief", [True, False])
def test_only_the_chief_logs(chief, tmp_path, capsys):
    config = TrainingConfig(num_train_steps=9)
    with contextlib.closing(TrainingLog(config, tmp_path, 0, chief)) as log:
        log.advance(3)
        log.end_at(5)
        log.note("a line")
        log.report(3, "train", METRICS)
    shown = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in shown] == (
        ["a line", "step 3/5"] if chief else []
    )
    assert bool([*tmp_path.iterdir()]) == chief
