"""A run that is stopped and started again ends as if nothing had happened."""

import contextlib
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import read_metrics

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
