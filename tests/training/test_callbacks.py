"""Keras callbacks of a run, as users write and download them."""

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.training.checkpoint_files import list_checkpoints


class Recorder(keras.callbacks.Callback):
    """Records all calls; reads the optimizer as W&B's `MetricsLogger` does."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_begin(self, logs=None):
        self.calls.append(("train_begin", self.params["epochs"]))

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("begin", epoch))

    def on_train_batch_end(self, batch, logs=None):
        optimizer = self.model.optimizer
        rate = float(optimizer.learning_rate.numpy().item())
        self.calls.append(("batch", batch, int(optimizer.iterations), rate))
        assert rate == pytest.approx(logs["learning_rate"])

    def on_test_end(self, logs=None):
        self.calls.append(("test", logs["accuracy"]))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch", epoch, sorted(logs)))

    def on_train_end(self, logs=None):
        self.calls.append(("train_end", logs["loss"]))


@pytest.fixture
def train(toy, one_device):
    def run(run_dir=None, callbacks=(), score=0.5, **settings):
        defaults = {"num_train_steps": 8, "log_steps": 2, "eval_steps": 4}
        return toy.fit(
            one_device,
            toy.NoisyLoss(),
            lambda step: toy.ones(),
            run_dir=run_dir,
            evaluate=None if score is None else lambda: {"accuracy": score},
            callbacks=callbacks,
            **defaults | settings,
        )

    return run


def test_calls_are_those_of_keras(train):
    recorder = Recorder()
    train(callbacks=[recorder])
    calls = recorder.calls
    assert calls[0] == ("train_begin", 2)
    assert [x[1:3] for x in calls if x[0] == "batch"] == [
        *((1, 2), (3, 4), (5, 6), (7, 8))
    ]
    assert [x[0] for x in calls[1:]] == [
        *("begin", "batch", "batch", "test", "epoch"),
        *("begin", "batch", "batch", "test", "epoch", "train_end"),
    ]
    assert [x[1] for x in calls if x[0] == "begin"] == [0, 1]
    _, epoch, names = calls[5]
    assert epoch == 0
    assert {"loss", "learning_rate", "val_accuracy"} <= set(names)
    assert calls[-2][1] == 1


def test_the_run_is_the_same_with_callbacks(train):
    plain, *_ = train()
    observed, *_ = train(
        callbacks=[Recorder(), keras.callbacks.TerminateOnNaN()]
    )
    np.testing.assert_array_equal(plain.weight, observed.weight)


def test_resumed_run_goes_on_in_its_epoch(train, tmp_path):
    train(tmp_path, callbacks=[Recorder()], num_train_steps=4)
    recorder = Recorder()
    train(tmp_path, callbacks=[recorder])
    epochs = [c for c in recorder.calls if c[0] in ("begin", "epoch")]
    assert [epoch[:2] for epoch in epochs] == [("begin", 1), ("epoch", 1)]


def test_a_missing_evaluation_is_the_end_of_its_epoch(train, tmp_path):
    train(tmp_path, num_train_steps=4, score=None)
    recorder = Recorder()
    train(tmp_path, callbacks=[recorder])
    names = [call[0] for call in recorder.calls[:6]]
    assert names == [
        *("train_begin", "begin", "test", "epoch"),
        *("begin", "batch"),
    ]
    begun = [call[1] for call in recorder.calls if call[0] == "begin"]
    assert begun == [0, 1]


def test_without_evaluations_the_run_is_an_epoch(train):
    recorder = Recorder()
    train(callbacks=[recorder], score=None, eval_steps=0)
    assert [x[1] for x in recorder.calls if x[0] == "epoch"] == [0]
    assert not any(call[0] == "test" for call in recorder.calls)


def test_a_callback_may_stop_the_run(train, tmp_path, capsys):
    # The accuracy does not get better.
    stopper = keras.callbacks.EarlyStopping(
        "val_accuracy", patience=2, mode="max"
    )
    _, _, result = train(tmp_path, callbacks=[stopper], num_train_steps=80)
    assert (result.steps, result.stopped_early) == (12, True)
    assert max(list_checkpoints(tmp_path / "checkpoints")) == 12
    assert "after step 12: a callback asked" in capsys.readouterr().err


def test_a_callback_is_not_called_early_stopping(train, tmp_path, capsys):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    _, _, result = train(
        tmp_path,
        callbacks=[Stop()],
        best_metric="accuracy",
        early_stopping_patience=3,
    )
    assert (result.steps, result.stopped_early) == (4, True)
    assert "a callback asked for it" in capsys.readouterr().err


def test_other_objects_are_an_error(train):
    with pytest.raises(
        InputError, match="callbacks: <function.*must be a keras"
    ):
        train(callbacks=[lambda logs: None])
