"""Two `albert pretrain` processes that train together, as on two machines."""

import os
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import read_metrics

pytestmark = pytest.mark.slow


@pytest.fixture
def start(records, tmp_path, worker_environments, tiny_model):
    """Starts a run with as many workers as asked for; ends those left."""
    tiny_model.to_json(tmp_path / "model.json")
    processes = []

    def start_run(output, workers=1, **flags):
        flags = {
            "input": records,
            "output": output,
            "config": tmp_path / "model.json",
            "train_batch_size": 16,
            "learning_rate": 2e-3,
            "num_warmup_steps": 3,
            "clip_norm": 0.5,
            "seed": 3,
            "eval_batch_size": 10,
            "max_eval_steps": 4,
            **flags,
        }
        environments = [dict(os.environ)]
        if workers > 1:
            environments = worker_environments(workers)
        started = []
        for environment in environments:
            started.append(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "albert_tf",
                        "pretrain",
                        *(f"--{name}={value}" for name, value in flags.items()),
                    ],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        processes.extend(started)
        return started

    yield start_run
    for process in processes:
        process.kill()
        process.communicate()


def test_two_workers_are_one_device_with_two_micro_batches(tmp_path, start):
    steps = {"num_train_steps": 20, "save_checkpoints_steps": 10}
    two = start(tmp_path / "two", workers=2, log_steps=5, **steps)
    one = start(
        tmp_path / "one", log_steps=5, gradient_accumulation_steps=2, **steps
    )
    for process in [*two, *one]:
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
    values, expected = (
        read_checkpoint(tmp_path / name / "checkpoints" / "step-00000020")
        for name in ("two", "one")
    )
    assert values.keys() == expected.keys()
    for name, value in values.items():
        # As in test_replica_parity.py.
        np.testing.assert_allclose(
            value, expected[name], rtol=0, atol=1e-6, err_msg=name
        )
    # Written once, by the chief; held-out examples counted once.
    lines, expected = (read_metrics(tmp_path / name) for name in ("two", "one"))
    assert [(x["split"], x["step"]) for x in lines] == [
        *(("train", step) for step in (5, 10, 15, 20)),
        ("eval", 20),
    ]
    for line, other in zip(lines, expected, strict=True):
        for name in ("loss", "mlm_accuracy", "sop_loss"):
            assert line["values"][name] == pytest.approx(
                other["values"][name], rel=1e-5
            )
