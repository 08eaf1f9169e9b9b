"""Two `albert` processes that train together, as on two machines."""

import os
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
from albert_tf.training.run_folder import lock_output

pytestmark = pytest.mark.slow

FLAGS = {
    "config": "albert_mini",
    "config_overrides": (
        "vocab_size=600,embedding_size=16,hidden_size=32,num_hidden_layers=2,"
        "num_attention_heads=2,intermediate_size=64,hidden_dropout_prob=0.1,"
        "attention_probs_dropout_prob=0.1"
    ),
    "train_batch_size": 16,
    "learning_rate": 2e-3,
    "num_warmup_steps": 3,
    "clip_norm": 0.5,
    "ema_decay": 0.9,
    "seed": 3,
    "eval_batch_size": 10,
    "max_eval_steps": 4,
    "num_train_steps": 20,
    "save_checkpoints_steps": 10,
    "log_steps": 5,
}

# The command, whose checkpoints take a while to be written.
SLOW_CHECKPOINTS = """
import sys, time
from albert_tf.cli.main import run
from albert_tf.training import checkpoints
write = checkpoints.write_checkpoint
def write_slowly(*arguments):
    time.sleep(3)
    write(*arguments)
checkpoints.write_checkpoint = write_slowly
run()
"""


@pytest.fixture
def start(worker_environments):
    """Starts `albert COMMAND`, a process for each dict of flags."""
    processes = []

    def start_workers(command, *workers, program=("-m", "albert_tf")):
        environments = [dict(os.environ)]
        if len(workers) > 1:
            environments = worker_environments(len(workers))
        started = [
            subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    command,
                    *(f"--{name}={value}" for name, value in flags.items()),
                ],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for flags, environment in zip(workers, environments, strict=True)
        ]
        processes.extend(started)
        return started

    yield start_workers
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def flags(records, tmp_path):
    """Flags of a run in `run`."""
    return {**FLAGS, "input": records, "output": tmp_path / "run"}


def errors_of(process):
    return process.communicate(timeout=600)[1]


def wait_for_checkpoint(run, *processes):
    deadline = time.monotonic() + 600
    while not list_checkpoints(run / "checkpoints"):
        assert time.monotonic() < deadline
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)


def test_two_workers_are_one_device_with_two_micro_batches(
    tmp_path, flags, start
):
    flags |= {"reading_groups": 2}  # Each worker reads its own files.
    for process in start("pretrain", flags, flags):
        errors = errors_of(process)
        assert process.returncode == 0, errors
    one = {"output": tmp_path / "one", "gradient_accumulation_steps": 2}
    (process,) = start("pretrain", {**flags, **one})
    errors = errors_of(process)
    assert process.returncode == 0, errors
    values, expected = (
        read_checkpoint(tmp_path / name / "checkpoints" / "step-00000020")
        for name in ("run", "one")
    )
    assert values.keys() == expected.keys()
    for name, value in values.items():
        # Slices are summed in another order.
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=1e-6, err_msg=name
        )
    # Written once, by the chief; held-out examples counted once.
    lines, expected = (read_metrics(tmp_path / name) for name in ("run", "one"))
    assert [(x["split"], x["step"]) for x in lines] == [
        *(("train", step) for step in (5, 10, 15, 20)),
        ("eval", 20),
    ]
    for line, other in zip(lines, expected, strict=True):
        for name in ("loss", "mlm_accuracy", "sop_loss"):
            assert line["values"][name] == pytest.approx(
                other["values"][name], rel=1e-5
            )


def test_signal_to_one_worker_stops_both_at_the_same_step(
    tmp_path, flags, start
):
    flags |= {"num_train_steps": 10**6, "steps_per_loop": 3}
    workers = start("pretrain", flags, flags)
    wait_for_checkpoint(tmp_path / "run", *workers)
    # Not the chief, which has to be told.
    workers[1].send_signal(signal.SIGTERM)
    errors = list(map(errors_of, workers))
    assert [worker.returncode for worker in workers] == [0, 0], errors
    steps = max(list_checkpoints(tmp_path / "run" / "checkpoints"))
    assert f"Stopped after step {steps}, saved in" in errors[0]


@pytest.mark.parametrize("killed", [1, 0])
def test_survivors_name_a_worker_that_died(tmp_path, flags, start, killed):
    flags |= {"num_train_steps": 10**6, "steps_per_loop": 3}
    workers = start("pretrain", flags, flags)
    wait_for_checkpoint(tmp_path / "run", *workers)
    workers[killed].kill()
    survivor = workers[1 - killed]
    lines = errors_of(survivor).splitlines()
    assert survivor.returncode == 1
    (line,) = (line for line in lines if line.startswith("albert: "))
    assert line == lines[-1]
    assert f"worker {killed} (" in line
    assert "start the same commands on all workers" in line


def test_workers_of_different_runs_are_an_error(tmp_path, flags, start):
    own = {**flags, "output": tmp_path / "own", "num_train_steps": 4}
    (alone,) = start("pretrain", own)
    errors = errors_of(alone)
    assert alone.returncode == 0, errors
    # A folder of its own, with another checkpoint.
    workers = start("pretrain", flags, {**own, "num_train_steps": 20})
    for worker, found in zip(workers, ("no", "that of step 4"), strict=True):
        assert f"different checkpoints, this one {found}" in errors_of(worker)
        assert worker.returncode == 2
    assert not (tmp_path / "run").exists()
    # Another setting: the chief waits for the worker, which has gone.
    _, other = start("pretrain", flags, {**flags, "learning_rate": 0.1})
    assert "learning_rate=0.002, not 0.1" in errors_of(other)
    assert other.returncode == 2


def test_folder_locked_by_another_process_is_an_error(tmp_path, flags, start):
    run = tmp_path / "run"
    with lock_output(run, run / ".lock"):
        chief, other = start("pretrain", flags, flags)
        assert f"run is being written by process {os.getpid()} on" in (
            errors_of(chief)
        )
        assert "the chief of the workers has failed" in errors_of(other)
    assert (chief.returncode, other.returncode) == (2, 2)


def test_all_workers_of_a_fine_tuning_run_load_the_best_checkpoint(
    tmp_path, flags, start
):
    flags |= {"num_train_steps": 1, "num_warmup_steps": 0, "ema_decay": 0}
    (process,) = start("pretrain", flags)
    errors = errors_of(process)
    assert process.returncode == 0, errors
    table = tmp_path / "texts.tsv"
    rows = [f"text number {n}\t{'yes' if n % 2 else 'no'}" for n in range(16)]
    table.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    tuned = {
        "task": "text",
        "train": table,
        "dev": table,
        "text_column": "text",
        "label_column": "label",
        "init_from": tmp_path / "run",
        "output": tmp_path / "tuned",
        "train_batch_size": 8,
        "num_train_steps": 4,
        "max_seq_length": 16,
        "eval_steps": 2,
    }
    workers = start("finetune", tuned, tuned, program=("-c", SLOW_CHECKPOINTS))
    outputs = [worker.communicate(timeout=600) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], outputs
    summaries = [output.splitlines()[0] for output, _ in outputs]
    assert summaries[0] == summaries[1]
    assert "accuracy" in summaries[0]
    assert (tmp_path / "tuned" / "model" / "task.json").exists()
