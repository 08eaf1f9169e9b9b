"""A run that is stopped and started again ends as if nothing had happened."""

import contextlib
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np

from albert_tf.training.checkpoints import list_checkpoints, read_checkpoint
from albert_tf.training.metrics_log import read_metrics

PROGRAM = pathlib.Path(__file__).with_name("toy.py")
# Enough steps that a run is still going when it is found to have saved.
STEPS = 3000
SAVE_STEPS = 150
LOG_STEPS = 50


def start(folder, steps_per_loop):
    return subprocess.Popen(
        [
            sys.executable,
            str(PROGRAM),
            str(folder),
            f"--total_steps={STEPS}",
            f"--save_steps={SAVE_STEPS}",
            f"--log_steps={LOG_STEPS}",
            f"--steps_per_loop={steps_per_loop}",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output, errors


@contextlib.contextmanager
def running(folder, after_step, steps_per_loop):
    """A process that has just saved something beyond `after_step`."""
    process = start(folder, steps_per_loop)
    try:
        while max(list_checkpoints(folder / "checkpoints"), default=0) <= (
            after_step
        ):
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        yield process
    finally:
        process.kill()
        process.communicate()


def final(folder):
    return read_checkpoint(folder / "checkpoints" / f"step-{STEPS:08d}")


def curve(folder):
    return [
        (x["step"], x["values"]["loss"], x["values"]["gradient_norm"])
        for x in read_metrics(folder)
        if x["step"] % LOG_STEPS == 0
    ]


def test_killed_and_interrupted_run_ends_bit_equal(tmp_path):
    undisturbed, folder = tmp_path / "undisturbed", tmp_path / "run"
    finish(start(undisturbed, steps_per_loop=97))

    with running(folder, after_step=0, steps_per_loop=50) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert max(list_checkpoints(folder / "checkpoints")) < STEPS

    with running(folder, after_step=1000, steps_per_loop=70) as process:
        process.send_signal(signal.SIGINT)
        output, errors = finish(process)
    stopped = max(list_checkpoints(folder / "checkpoints"))
    assert 1000 < stopped < STEPS
    assert f"steps {stopped} interrupted True\n" in output
    assert f"Stopped after step {stopped}, saved in {folder}" in errors
    assert "Traceback" not in errors

    output, _ = finish(start(folder, steps_per_loop=41))
    assert f"steps {STEPS} interrupted False\n" in output
    ours, theirs = final(folder), final(undisturbed)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
    # Not a step twice, none missing, the same numbers.
    assert curve(folder) == curve(undisturbed)
