import shutil

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.train import pretrain


@pytest.fixture(scope="session")
def tiny_model():
    """An architecture for `records`, with dropout and weights far from zero."""
    return AlbertConfig(
        vocab_size=600,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.1,
    )


@pytest.fixture(scope="session")
def small_model(tiny_model):
    """An architecture for the records of `create`."""
    return tiny_model.replace(vocab_size=200)


@pytest.fixture(scope="session")
def pretrain_config(tiny_model):
    """Returns `make(records, run, steps=12, **changes)` -> config."""

    def make(records, run, steps=12, **changes):
        return PretrainConfig(
            **{
                "input": str(records),
                "output": run,
                "model": tiny_model,
                "num_train_steps": steps,
                "log_steps": 4,
                "save_checkpoints_steps": 4,
                "eval_steps": 6,
                "seed": 3,
                "train_batch_size": 16,
                "optimizer": "adamw",
                "learning_rate": 2e-3,
                "num_warmup_steps": min(3, steps - 1),
                "max_eval_steps": 4,
                **changes,
            }
        )

    return make


@pytest.fixture(scope="session")
def pretrained(records, tmp_path_factory, pretrain_config):
    """A run of 12 steps; each of its 3 checkpoints has all held-out scores."""
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    every = {"eval_steps": 4, "max_eval_steps": 0, "best_metric": "sop_loss"}
    pretrain(pretrain_config(records, folder, **every))
    return folder


@pytest.fixture
def copied_run(pretrained, tmp_path):
    """Returns `copy(steps)`: `pretrained` as if killed after `steps`."""

    def copy(steps=12):
        folder = shutil.copytree(pretrained, tmp_path / "run")
        for step in range(steps + 1, 13):
            for path in folder.glob(f"checkpoints/step-{step:08d}.*"):
                path.unlink()
        return folder

    return copy
