import json

import pytest

from albert_tf.analysis.runs import read_runs, run_table
from albert_tf.errors import InputError


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


def test_an_incomplete_last_line(tmp_path):
    folder = write(tmp_path / "run", [(10, 5.0, "train", {"loss": 1.0})])
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 20, "ti')
    assert [line.step for line in read(folder).lines] == [10]


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


def test_a_folder_without_metrics(tmp_path):
    with pytest.raises(InputError, match="no metrics"):
        read_runs([tmp_path])
