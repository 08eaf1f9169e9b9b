"""`albert pretrain`, killed at random moments, ends with the same weights."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf.training.best_checkpoint import read_best
from albert_tf.training.checkpoint_files import (
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import read_metrics

SERVER = pathlib.Path(__file__).with_name("killable.py")
STEPS, KILLS, PATIENCE = 200, 20, 600

pytestmark = pytest.mark.slow

FLAGS = {
    "config_overrides": (
        "vocab_size=600,embedding_size=16,hidden_size=32,num_hidden_layers=1,"
        "num_attention_heads=2,intermediate_size=64,hidden_dropout_prob=0.1,"
        "attention_probs_dropout_prob=0.1"
    ),
    "config": "albert_mini",
    "num_train_steps": STEPS,
    "train_batch_size": 8,
    "learning_rate": 0.002,
    "num_warmup_steps": 10,
    "steps_per_loop": 3,
    "log_steps": 2,
    "save_checkpoints_steps": 2,
    "eval_steps": 4,
    "max_eval_steps": 2,
    "best_metric": "mlm_loss",
    "seed": 5,
}


class Command:
    """One run of the command, on one or two devices."""

    def __init__(self, server, devices, run, **flags):
        self._server = server
        self._log = run.parent / f"{run.name}.log"
        self._log.unlink(missing_ok=True)
        flags = FLAGS | {"output": run} | flags
        if devices > 1:
            flags["distribution"] = "mirrored"
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        request = [devices, str(self._log), "pretrain", *arguments]
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        self.process = int(server.stdout.readline())
        self.checkpoints = run / "checkpoints"

    @property
    def log(self):
        return self._log.read_text() if self._log.exists() else ""

    def wait_for(self, happened):
        """Waits for something, or the end of the process."""
        deadline = time.monotonic() + PATIENCE
        while not happened() and self._runs():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.0005)

    def _runs(self):
        stat = pathlib.Path(f"/proc/{self.process}/stat")
        return stat.exists() and stat.read_text().split()[2] != "Z"

    def is_writing(self):
        """Whether there is an unfinished checkpoint, maybe an older one."""
        return any(self.checkpoints.glob("unfinished*"))

    def end(self):
        """Returns the exit status, or minus the signal."""
        return int(self._server.stdout.readline())


@pytest.fixture(scope="module")
def start(records):
    """Starts a command: `start(devices, run, **flags)`."""
    server = subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield lambda devices, run, **flags: Command(
        server, devices, run, input=records, **flags
    )
    server.stdin.close()
    server.wait(timeout=PATIENCE)


@pytest.fixture(scope="module")
def undisturbed(start, tmp_path_factory):
    """Returns `of(devices)`, the folder of an uninterrupted run."""
    runs = {}

    def of(devices):
        if devices not in runs:
            runs[devices] = tmp_path_factory.mktemp("undisturbed") / "run"
            command = start(devices, runs[devices])
            assert command.end() == 0, command.log
        return runs[devices]

    return of


def assert_same(run, expected):
    ours, theirs = map(read_checkpoint, map(find_checkpoint, (run, expected)))
    assert ours["step"] == STEPS
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    ours, theirs = (read_best(path / "checkpoints") for path in (run, expected))
    assert ours == theirs
    # Every line once, with the same numbers.
    ours, theirs = map(curve, (run, expected))
    assert ours == theirs


def curve(run):
    """Loss and gradient norm by step and split, in the order of the log."""
    return [
        (
            line["step"],
            line["split"],
            line["values"]["loss"],
            line["values"].get("gradient_norm"),
        )
        for line in read_metrics(run)
    ]


def kill_sometime(command, kind, moments):
    """Kills a command at a random moment of a kind; returns what it did."""

    def steps():
        found = re.findall(r"^step (\d+)/", command.log, re.MULTILINE)
        return list(map(int, found))

    if kind == "start-up":
        # Imports are done, so this is tracing and the first steps.
        time.sleep(moments.uniform(0.0, 5.0))
    else:
        lines = moments.randint(1, 4)
        command.wait_for(lambda: len(steps()) >= lines)
    if kind == "save":
        command.wait_for(command.is_writing)
    elif kind == "evaluation":
        seen = len(steps())
        # The line of a training step after which it evaluates.
        command.wait_for(lambda: any(s % 4 == 0 for s in steps()[seen:]))
    elif kind == "loop":
        time.sleep(moments.uniform(0.0, 0.1))
    os.kill(command.process, signal.SIGKILL)
    writing = command.is_writing()
    return command.end(), len(steps()), writing


@pytest.mark.parametrize("devices", [1, 2])
def test_run_killed_twenty_times_ends_bit_equal(
    start, undisturbed, tmp_path, devices
):
    run, moments = tmp_path / "run", random.Random(devices)
    kinds = ["start-up", "loop", "save", "evaluation"] * (KILLS // 4)
    moments.shuffle(kinds)
    found = []
    for kind in kinds:
        result = kill_sometime(start(devices, run), kind, moments)
        found.append((kind, *result))
        newest = max(list_checkpoints(run / "checkpoints"), default=0)
        print(*found[-1], "newest checkpoint:", newest, flush=True)
    assert [status for _, status, *_ in found] == [-signal.SIGKILL] * KILLS
    assert newest < STEPS
    command = start(devices, run)
    assert command.end() == 0, command.log
    assert_same(run, undisturbed(devices))
    # They were spread: before the first step, later, and into a save.
    assert any(lines == 0 for _, _, lines, _ in found)
    assert any(lines > 1 for _, _, lines, _ in found)
    assert any(kind == "save" and writing for kind, *_, writing in found)


def test_killed_run_of_phases_ends_bit_equal(start, tmp_path):
    flags = {
        "phases": json.dumps(
            [
                {"steps": 6},
                {"steps": 6, "train_batch_size": 4},
                {"gradient_accumulation_steps": 2},
            ]
        )
    }
    expected, run = tmp_path / "expected", tmp_path / "run"
    command = start(1, expected, **flags)
    assert command.end() == 0, command.log
    moments = random.Random(3)
    for kind in ("start-up", "loop", "save", "evaluation", "loop", "save"):
        kill_sometime(start(1, run, **flags), kind, moments)
    command = start(1, run, **flags)
    assert command.end() == 0, command.log
    assert_same(run, expected)


def test_preempted_run_resumes_and_ends_bit_equal(start, undisturbed, tmp_path):
    run = tmp_path / "run"
    command = start(1, run)
    command.wait_for(lambda: command.log.count("step ") > 5)
    os.kill(command.process, signal.SIGTERM)
    assert command.end() == 0
    step = max(list_checkpoints(run / "checkpoints"))
    assert step < STEPS
    assert "SIGTERM: finishing the current steps, then saving" in command.log
    last = command.log.splitlines()[-1]
    assert last == (
        f"Stopped after step {step}, saved in {run}; the same command resumes."
    )
    command = start(1, run)
    assert command.end() == 0, command.log
    assert_same(run, undisturbed(1))


def cut(path):
    path.write_bytes(path.read_bytes()[:50])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (cut, "data-00000-of-00001"),
        (flip, "data-00000-of-00001"),
        (pathlib.Path.unlink, "data-00000-of-00001"),
        (cut, "index"),
        (empty, "index"),
    ],
)
def test_run_with_a_damaged_checkpoint_goes_back(
    start, undisturbed, tmp_path, damage, file
):
    run = shutil.copytree(undisturbed(1), tmp_path / "run")
    name = f"step-{STEPS:08d}"
    damage(run / "checkpoints" / f"{name}.{file}")
    command = start(1, run)
    assert command.end() == 0, command.log
    (line,) = (x for x in command.log.splitlines() if "cannot be read" in x)
    assert name in line
    assert "going back to the one before" in line
    assert_same(run, undisturbed(1))


def test_divergence_is_one_line_and_status_1(start, tmp_path):
    run = tmp_path / "run"
    command = start(1, run, max_loss=0.1)
    assert command.end() == 1
    (line,) = (x for x in command.log.splitlines() if "max_loss" in x)
    assert "above max_loss=0.1, at step 1 (batch 0 of the data" in line
    assert line.startswith("albert: pretrain: FloatingPointError: the loss is ")
    assert not list_checkpoints(run / "checkpoints")
