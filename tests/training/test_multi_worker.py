"""Two processes that train together, as on two machines."""

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
from albert_tf.training.evaluation import Evaluator
from albert_tf.training.logging import read_metrics

PROGRAM = pathlib.Path(__file__).with_name("toy.py")

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path, worker_environments):
    """Starts two workers; ends those that are left."""
    processes = []

    def start_workers(folders=("run", "run"), **flags):
        environments = worker_environments(2)
        for folder, environment in zip(folders, environments, strict=True):
            processes.append(
                subprocess.Popen(
                    [
                        sys.executable,
                        str(PROGRAM),
                        str(tmp_path / folder),
                        *(f"--{name}={value}" for name, value in flags.items()),
                    ],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return processes

    yield start_workers
    for process in processes:
        process.kill()
        process.communicate()


def test_two_workers_are_one_device_with_two_micro_batches(
    toy, one_device, tmp_path, start
):
    flags = {
        "num_train_steps": 20,
        "save_checkpoints_steps": 10,
        "log_steps": 5,
    }
    flags["ema_decay"] = 0.9
    workers = start(steps_per_loop=7, **flags)
    outputs = [worker.communicate(timeout=300) for worker in workers]
    for worker, (_, errors) in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, errors
    model, _, result = toy.run(
        one_device,
        rate=0.3,
        gradient_accumulation_steps=2,
        run_dir=tmp_path / "one",
        **flags,
    )
    values, expected = (
        read_checkpoint(tmp_path / name / "checkpoints/step-00000020")
        for name in ("run", "one")
    )
    assert values.keys() == expected.keys()
    for name, value in values.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6)
    # Written once, by the chief.
    lines = read_metrics(tmp_path / "run")
    assert [x["step"] for x in lines] == [5, 10, 15, 20]
    assert lines[-1]["values"]["loss"] == pytest.approx(
        result.metrics["loss"], rel=1e-5
    )
    # Batches of 5, and an evaluation that counts each example once.
    data = toy.batches(batch_size=5, seed=1).take(3)
    loss = Evaluator(one_device, model, toy.ToyLoss(), 5)(data)["loss"]
    for output, _ in outputs:
        assert float(output.split()[-1]) == pytest.approx(loss, rel=1e-5)


def test_signal_to_one_worker_stops_both_at_the_same_step(tmp_path, start):
    workers = start(
        num_train_steps=10**6,
        save_checkpoints_steps=20,
        log_steps=20,
        steps_per_loop=5,
    )
    deadline = time.monotonic() + 300
    while not list_checkpoints(tmp_path / "run" / "checkpoints"):
        assert time.monotonic() < deadline
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.05)
    # Not the chief: it has to hear of it.
    workers[1].send_signal(signal.SIGTERM)
    outputs = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    steps = max(list_checkpoints(tmp_path / "run" / "checkpoints"))
    for output, _ in outputs:
        assert f"steps {steps} interrupted True" in output


def test_workers_with_folders_of_their_own_are_refused(
    toy, one_device, tmp_path, start
):
    toy.run(one_device, num_train_steps=3, run_dir=tmp_path / "other")
    workers = start(folders=("run", "other"), num_train_steps=6)
    for worker, found in zip(workers, ("no", "that of step 3"), strict=True):
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode != 0
        assert f"different checkpoints, this one {found}" in errors
