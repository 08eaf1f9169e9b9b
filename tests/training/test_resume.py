"""A run that is stopped and started again ends as if nothing had happened."""

import gc
import sys

import pytest
import tensorflow as tf

from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import MetricsLog, read_events, read_metrics
from albert_tf.training.run_folder import open_run_folder, read_settings


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
        # Too many iterators of killed runs starve TensorFlow of threads.
        gc.collect()

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
        gc.collect()
        train(folder)
        assert content(folder) == expected, kills
        kills += 1
    assert kills > 20
