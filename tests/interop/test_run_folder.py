import shutil

import numpy as np
import pytest

from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import is_run_folder
from albert_tf.training.checkpoint_files import read_checkpoint


@pytest.fixture
def run(copied):
    return copied("albert_tf_run")


def copy_step(run, step):
    for path in run.glob("checkpoints/step-00000002.*"):
        suffix = path.name.removeprefix("step-00000002")
        shutil.copy(path, path.with_name(f"step-{step:08}{suffix}"))


def test_opens_the_newest_checkpoint(run):
    assert is_run_folder(run)
    checkpoint = open_checkpoint(run)
    # The variables that training restores.
    saved = read_checkpoint(run / "checkpoints" / "step-00000002")
    model = {k: v for k, v in saved.items() if k.startswith("model/")}
    assert {f"model/{path}" for path in checkpoint.arrays} == set(model)
    for path, value in checkpoint.arrays.items():
        np.testing.assert_array_equal(value, model[f"model/{path}"])
    assert set(checkpoint.skipped) == set(saved) - set(model)
    assert "optimizer state" in checkpoint.report()


@pytest.mark.parametrize("suffix", ["", ".index", ".data-00000-of-00001"])
def test_opens_a_given_checkpoint(run, suffix):
    copy_step(run, 10)
    newest = open_checkpoint(run).source
    assert newest == str(run / "checkpoints" / "step-00000010")
    path = run / "checkpoints" / f"step-00000002{suffix}"
    older = open_checkpoint(path)
    assert older.source == str(run / "checkpoints" / "step-00000002")
    assert older.format == "training run of albert_tf"


def test_without_tokenizer(run):
    (run / "tokenizer_config.json").unlink()
    (run / "spiece.model").unlink()
    checkpoint = open_checkpoint(run)
    assert checkpoint.tokenizer is None
    assert not checkpoint.vocabulary.problem
