"""`albert finetune`, killed at random moments, ends with the same bits."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf.training.checkpoint_files import find_checkpoint, read_checkpoint
from albert_tf.training.logging import read_metrics

pytestmark = pytest.mark.slow

SERVER = pathlib.Path(__file__).parents[1] / "pretraining/killable.py"
PATIENCE = 600
STEPS = 60
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL)


@pytest.fixture
def start(checkpoint, task_files, tmp_path):
    """Returns `begin(run)` -> process, log, and `end()` -> exit status."""
    server = subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    flags = {
        "task": "text",
        "pair_column": "pair",
        "train": task_files["classes"],
        "dev": task_files["classes"],
        "init_from": checkpoint,
        "num_train_steps": STEPS,
        "train_batch_size": 4,
        "max_seq_length": 32,
        "learning_rate": 0.001,
        "config_overrides": "hidden_dropout_prob=0.1",
        "steps_per_loop": 2,
        "log_steps": 2,
        "eval_steps": 6,
        "save_checkpoints_steps": 4,
    }

    def begin(run):
        log = tmp_path / f"{run.name}.log"
        log.write_text("")
        given = flags | {"output": run}
        arguments = [f"--{name}={value}" for name, value in given.items()]
        request = [1, str(log), "finetune", *arguments]
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline()), log

    yield begin, lambda: int(server.stdout.readline())
    server.stdin.close()
    server.wait(timeout=PATIENCE)


def wait_for_lines(process, log, number):
    """Waits for some steps, or the end of the process."""
    stat = pathlib.Path(f"/proc/{process}/stat")
    deadline = time.monotonic() + PATIENCE
    while log.read_text().count("\nstep ") < number:
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.001)


def scores(run):
    return [
        (line["step"], line["values"])
        for line in read_metrics(run)
        if line["split"] == "eval"
    ]


def test_killed_runs_end_with_the_same_bits(start, contents, tmp_path):
    begin, end = start
    expected, run = tmp_path / "expected", tmp_path / "run"
    _, log = begin(expected)
    assert end() == 0, log.read_text()
    moments = random.Random(1)
    for number in SIGNALS:
        process, log = begin(run)
        wait_for_lines(process, log, moments.randint(0, 9))
        time.sleep(moments.uniform(0, 0.1))
        os.kill(process, number)  # Nobody has waited for it: it is there.
        # SIGTERM saves, and is the default action before training begins.
        assert end() in (-number, 0), log.read_text()
    _, log = begin(run)
    assert end() == 0, log.read_text()
    assert contents(run / "model") == contents(expected / "model")
    ours, theirs = map(read_checkpoint, map(find_checkpoint, (run, expected)))
    assert ours["step"] == STEPS
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert scores(run) == scores(expected)
