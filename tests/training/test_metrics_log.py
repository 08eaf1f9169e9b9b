import math

import pytest

from albert_tf.training.metrics_log import (
    MetricsLog,
    read_events,
    read_metrics,
)


def events(folder):
    """(split, step, name, value) of all event files, in TensorBoard's order."""
    return [
        (path.parent.name, event.step, value.tag, value.simple_value)
        for path in sorted(folder.glob("tensorboard/*/*.tfevents.*"))
        for event in read_events(path)
        for value in event.summary.value
    ]


def test_lines_and_events_hold_the_same(tmp_path):
    with MetricsLog(tmp_path) as log:
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


def test_resume_cuts_what_is_done_again(tmp_path):
    with MetricsLog(tmp_path) as log:
        for step in (10, 20, 30):
            log.write(step, "train", {"loss": float(step)})
    with MetricsLog(tmp_path, step=20) as log:
        log.write(30, "train", {"loss": -30.0})
    curve = [(10, 10.0), (20, 20.0), (30, -30.0)]
    lines = read_metrics(tmp_path)
    assert [(x["step"], x["values"]["loss"]) for x in lines] == curve
    assert [(step, value) for _, step, _, value in events(tmp_path)] == curve


def test_unfinished_line_and_event_are_passed_over(tmp_path):
    with MetricsLog(tmp_path) as log:
        log.write(10, "train", {"loss": 1.0})
        log.write(20, "train", {"loss": 2.0})
    (event_file,) = tmp_path.glob("tensorboard/*/*")
    for path in (tmp_path / "metrics.jsonl", event_file):
        path.write_bytes(path.read_bytes()[:-4])
    assert [x["step"] for x in read_metrics(tmp_path)] == [10]
    with MetricsLog(tmp_path, step=20) as log:
        log.write(30, "train", {"loss": 3.0})
    assert [x["step"] for x in read_metrics(tmp_path)] == [10, 30]
    assert [step for _, step, *_ in events(tmp_path)] == [10, 30]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_null(tmp_path, value):
    with MetricsLog(tmp_path) as log:
        log.write(1, "eval", {"f1": value})
    assert '"f1": null' in (tmp_path / "metrics.jsonl").read_text()


def test_no_log_no_lines(tmp_path):
    assert read_metrics(tmp_path) == []
