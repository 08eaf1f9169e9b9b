import os
import signal

import keras
import pytest

import albert_tf
from albert_tf.demo import small_model
from albert_tf.demo.small_model import pretrain_small_model
from albert_tf.training.checkpoint_files import run_checkpoints


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(small_model, "_DOCUMENTS", 400)
    monkeypatch.setattr(small_model, "_STEPS", (3, 2))


def test_an_interrupted_call_is_continued(tmp_path, monkeypatch):
    """In the first run; what was finished before it stays."""
    train = albert_tf.pretrain

    class Interrupt(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            os.kill(os.getpid(), signal.SIGINT)  # The run saves and ends.

    with monkeypatch.context() as patch:
        patch.setattr(
            albert_tf, "pretrain", lambda x: train(x, callbacks=[Interrupt()])
        )
        with pytest.raises(KeyboardInterrupt):
            pretrain_small_model(tmp_path / "small")
    assert not (tmp_path / "small" / "run").exists()
    run = pretrain_small_model(tmp_path / "small")
    assert max(run_checkpoints(tmp_path / "small" / "one_layer")) == 3
    assert max(run_checkpoints(run)) == 2
    assert albert_tf.AlbertEncoder.from_pretrained(run).tokenizer
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert pretrain_small_model(tmp_path / "small") == run
    assert times == {x: x.stat().st_mtime_ns for x in tmp_path.rglob("*")}
