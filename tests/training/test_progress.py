import io
import sys
import time

import pytest

from albert_tf.training.progress import Progress

METRICS = {
    "loss": 2.5,
    "mlm_accuracy": 0.25,
    "mlm_loss": 2.0,
    "gradient_norm": 1.0,
    "tokens_per_second": 1234.0,
    "matmul_share": 0.614,
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
    progress = Progress(total_steps=100, step=40)
    progress.advance(10)
    progress.report(50, "train", METRICS)
    progress.report(50, "eval", {"loss": 3.5, "mlm_accuracy": 0.2})
    progress.close()
    text = terminal.getvalue()
    live = text.split("\r")[-1]
    assert live.startswith("step 50/100, 00:")
    assert " left, loss 2.5, mlm 25.0%, 1,234 tokens/s, 61% of peak |" in live
    assert "step 50, eval: loss 3.5, mlm_accuracy 0.2\n" in text
    assert text.count("\n") == 2


def test_narrow_terminal_loses_the_bar_first(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(total_steps=100)
    progress._bar.ncols = 80
    progress._bar.dynamic_ncols = False
    progress.report(50, "train", METRICS)
    progress.close()
    live = terminal.getvalue().split("\r")[-1].rstrip("\n")
    assert len(live) <= 80
    assert "61% of peak" in live


def test_file_gets_a_line_a_report(capsys, clock):
    progress = Progress(total_steps=100, step=40)
    clock(20.0)
    progress.advance(10)
    progress.report(50, "train", METRICS)
    progress.report(50, "eval", {"loss": 3.5})
    progress.close()
    assert capsys.readouterr().err.splitlines() == [
        "step 50/100, train: loss 2.5, mlm_accuracy 0.25, mlm_loss 2, "
        "1,234 tokens/s, 61% of matmul peak, 01:40 left",
        "step 50/100, eval: loss 3.5",
    ]


def test_time_left_forgets_the_first_report_and_counts_evaluations(
    capsys, clock
):
    progress = Progress(total_steps=1000)
    # 100 s to compile and 10 steps; then 1 s a step and 10 s of evaluation.
    for step, seconds in ((10, 100), (20, 120), (30, 140)):
        clock(seconds)
        progress.report(step, "train", {"loss": 1.0})
        progress.report(step, "eval", {"loss": 1.0})
    train = capsys.readouterr().err.splitlines()[::2]
    left = [line.split(", ")[-1] for line in train]
    # 990 steps of 10 s; 980 and 970 of 2 s.
    assert left == ["2:45:00 left", "32:40 left", "32:20 left"]
