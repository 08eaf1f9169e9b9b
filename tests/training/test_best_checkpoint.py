import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training import optimizers, schedules
from albert_tf.training.best_checkpoint import (
    FILE,
    Best,
    best_of,
    better,
    read_best,
    write_best,
)
from albert_tf.training.checkpoint_files import (
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.loop import train
from albert_tf.training.metrics_log import read_metrics
from albert_tf.training.training_config import TrainingConfig


@pytest.mark.parametrize(
    ("metric", "values", "step"),
    [("mlm_accuracy", [0.5, 0.7, 0.7], 2), ("sop_loss", [2.0, None, 3.0], 1)],
)
def test_lower_losses_and_higher_scores_are_better(metric, values, step):
    lines = [
        {"split": "eval", "step": n, "values": {metric: value}}
        for n, value in enumerate(values, 1)
    ]
    lines.append({"split": "train", "step": 4, "values": {metric: 0.0}})
    assert best_of(lines, metric, range(9)).step == step
    assert best_of(lines, metric, [3]).step == 3
    assert best_of(lines, metric, []) is None


def test_only_what_is_better_replaces_the_best():
    best = better(None, 1, "loss", {"loss": 2.0})
    assert best == Best(1, "loss", 2.0)
    for value in (2.0, 3.0, float("nan"), float("-inf")):
        assert better(best, 2, "loss", {"loss": value}) is None
    assert better(best, 2, "loss", {"loss": 1.0}).step == 2


def test_metric_that_there_is_not_is_named():
    with pytest.raises(InputError, match="best_metric='f1': .* has a, loss"):
        better(None, 1, "f1", {"loss": 1.0, "a": 0.0})


def test_record_is_written_and_removed(tmp_path):
    assert read_best(tmp_path) is None
    write_best(tmp_path, Best(3, "loss", 0.5))
    assert read_best(tmp_path) == Best(3, "loss", 0.5)
    write_best(tmp_path, None)
    write_best(tmp_path, None)
    assert read_best(tmp_path) is None
    (tmp_path / FILE).write_text("[]")
    with pytest.raises(InputError, match="not the record of a best"):
        read_best(tmp_path)


def train_scored(toy, run_dir, scores, **settings):
    """Trains; `scores` are those of the evaluations at 4, 8, ..., by step."""
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    with strategy.scope():
        model = toy.Toy()
    settings = {
        "total_steps": 16,
        "eval_steps": 4,
        "save_steps": 6,
        "log_steps": 6,
        "keep_checkpoints": 1,
        "best_metric": "accuracy",
        **settings,
    }

    def evaluate():
        step = read_metrics(run_dir)[-1]["step"]
        if scores[step] is None:
            raise KeyboardInterrupt
        return {"accuracy": scores[step]}

    train(
        TrainingConfig(**settings),
        strategy,
        model,
        toy.ToyTask(),
        optimizers.Lamb(),
        schedules.PolynomialDecay(0.01, 16),
        toy.batches,
        run_dir=run_dir,
        evaluate=evaluate,
    )


def test_best_checkpoint_stays_beside_the_newest(toy, tmp_path):
    folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        train_scored(toy, tmp_path, {4: 0.4, 8: 0.8, 12: 0.6, 16: None})
    assert read_best(folder) == Best(8, "accuracy", 0.8)
    assert list(list_checkpoints(folder)) == [8, 16]
    best = find_checkpoint(tmp_path / "best")
    assert best == find_checkpoint(folder / "best")
    assert read_checkpoint(best)["step"] == 8
    assert read_checkpoint(find_checkpoint(tmp_path))["step"] == 16
    # What was evaluated is logged; the stop came in between.
    train_scored(toy, tmp_path, {16: 0.7})
    assert read_best(folder).step == 8


def test_record_follows_the_step_that_a_run_resumes_from(toy, tmp_path):
    folder = tmp_path / "checkpoints"
    scores = {4: 0.4, 8: 0.5, 12: 0.6, 16: 0.9}
    train_scored(toy, tmp_path, scores, keep_checkpoints=5)
    assert read_best(folder).step == 16
    # The newest two are lost; the best of what is left is that of 8.
    for step in (12, 16):
        (folder / f"step-{step:08d}.index").write_bytes(b"")
    with pytest.raises(KeyboardInterrupt):
        train_scored(toy, tmp_path, {12: None}, keep_checkpoints=5)
    assert read_best(folder).step == 8
    # As if it had been killed before it wrote the record.
    (folder / FILE).unlink()
    train_scored(toy, tmp_path, {12: 0.1, 16: 0.2}, keep_checkpoints=5)
    assert read_best(folder) == Best(8, "accuracy", 0.5)
