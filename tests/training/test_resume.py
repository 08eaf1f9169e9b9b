"""A run that is stopped and started again ends as if nothing had happened."""

import contextlib
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import MetricsLog, read_events, read_metrics
from albert_tf.training.run_folder import open_run_folder, read_settings

PROGRAM = pathlib.Path(__file__).with_name("toy.py")
ENDLESS = 10**6
LOG_STEPS = 50


def start(folder, num_train_steps, steps_per_loop):
    return subprocess.Popen(
        [
            sys.executable,
            str(PROGRAM),
            str(folder),
            f"--num_train_steps={num_train_steps}",
            f"--steps_per_loop={steps_per_loop}",
            f"--log_steps={LOG_STEPS}",
            "--save_checkpoints_steps=150",
            "--decay_steps=10000",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output, errors


def newest(folder):
    return max(list_checkpoints(folder / "checkpoints"), default=0)


@contextlib.contextmanager
def running(folder, after_step, steps_per_loop):
    """An endless run that has just saved something beyond `after_step`."""
    process = start(folder, ENDLESS, steps_per_loop)
    try:
        while newest(folder) <= after_step:
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        yield process
    finally:
        process.kill()
        process.communicate()


def curve(folder):
    return [
        (x["step"], x["values"]["loss"], x["values"]["gradient_norm"])
        for x in read_metrics(folder)
        if x["step"] % LOG_STEPS == 0
    ]


@pytest.mark.long
def test_killed_and_interrupted_run_ends_bit_equal(tmp_path):
    folder, undisturbed = tmp_path / "run", tmp_path / "undisturbed"
    with running(folder, after_step=0, steps_per_loop=50) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed = newest(folder)

    with running(folder, after_step=killed, steps_per_loop=70) as process:
        process.send_signal(signal.SIGINT)
        output, errors = finish(process)
    stopped = newest(folder)
    assert stopped > killed > 0
    assert f"steps {stopped} interrupted True\n" in output
    assert f"Stopped after step {stopped}, saved in {folder}" in errors
    assert "Traceback" not in errors

    steps = stopped + 200
    runs = [start(folder, steps, 41), start(undisturbed, steps, 97)]
    for run in runs:
        assert f"steps {steps} interrupted False\n" in finish(run)[0]
    ours, theirs = (
        read_checkpoint(path / "checkpoints" / f"step-{steps:08d}")
        for path in (folder, undisturbed)
    )
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
    # Not a step twice, none missing, the same numbers.
    assert curve(folder) == curve(undisturbed)


@pytest.fixture
def audited(monkeypatch):
    """Makes changes of files by TensorFlow known to `each_kill`."""

    def audit(owner, name, event):
        function = getattr(owner, name)

        def audited(*arguments, **keywords):
            sys.audit(event)
            return function(*arguments, **keywords)

        monkeypatch.setattr(owner, name, audited)

    for name in ("rename", "remove", "rmtree"):
        audit(tf.io.gfile, name, f"os.{name.replace('rmtree', 'remove')}")
    audit(tf.io.gfile, "makedirs", "os.mkdir")
    audit(tf.raw_ops, "SaveV2", "os.rename")
    audit(tf.io, "TFRecordWriter", "os.rename")
    audit(MetricsLog, "write", "os.rename")


@pytest.mark.long
@pytest.mark.usefixtures("audited")
def test_run_killed_at_any_change_of_a_file_ends_equal(
    tmp_path, toy, each_kill
):
    scores = {2: 0.5, 4: 0.7, 6: 0.6}

    def train(folder):
        with open_run_folder(
            folder,
            {"learning_rate": 0.01},
            files={"config.json": "{}"},
            command_files={"flags.txt": "--learning_rate=0.01"},
        ) as run:
            toy.train_scored(
                folder,
                scores,
                start=run.claim,
                num_train_steps=6,
                eval_steps=2,
                save_checkpoints_steps=3,
                keep_checkpoint_max=1,
            )

    def content(folder):
        """All that a run has written, but for times."""
        found = {}
        for path in folder.rglob("*"):
            name = str(path.relative_to(folder))
            if path.suffix == ".index":
                values = read_checkpoint(path.with_suffix(""))
                found[name] = {n: x.tobytes() for n, x in values.items()}
            elif name in ("config.json", "flags.txt", "checkpoints/best.json"):
                found[name] = path.read_bytes()
            elif path.suffix in (".partial", ".lock"):
                found[name] = "left"
        found["settings"] = read_settings(folder)
        for line in read_metrics(folder):
            line["values"].pop("examples_per_second", None)
            key = line["step"], line["split"]
            assert key not in found
            found[key] = line["values"]
        for path in folder.glob("tensorboard/*/*"):
            for event in read_events(path):
                if event.step:
                    key = event.step, path.parent.name, "event"
                    assert key not in found
                    found[key] = len(event.summary.value)
        return found

    train(tmp_path / "undisturbed")
    expected = content(tmp_path / "undisturbed")
    assert expected[6, "train", "event"] > 1
    kills = 0
    for folder in each_kill(lambda name: tmp_path / name, train):
        train(folder)
        assert content(folder) == expected, kills
        kills += 1
    assert kills > 20
