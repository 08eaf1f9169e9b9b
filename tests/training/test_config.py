import pytest

from albert_tf.errors import InputError
from albert_tf.training.config import TrainingConfig


def stops(**settings):
    config = TrainingConfig(**settings)
    steps = [0]
    while steps[-1] < config.num_train_steps:
        steps.append(config.next_stop(steps[-1], config.steps_per_loop))
    return steps


def test_loops_end_on_every_multiple_and_at_the_end():
    assert stops(
        num_train_steps=25,
        steps_per_loop=4,
        log_steps=10,
        save_checkpoints_steps=7,
        eval_steps=12,
    ) == [0, 4, 7, 10, 12, 14, 18, 20, 21, 24, 25]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_train_steps", 0),
        ("steps_per_loop", 0),
        ("gradient_accumulation_steps", 0),
        ("keep_checkpoint_max", 0),
        ("eval_steps", -1),
        ("max_loss", -1.0),
        ("max_loss", float("nan")),
        ("skip_batches", "7"),
        ("skip_batches", "9-7"),
        ("skip_batches", "1-2,"),
        ("skip_batches", "-1-2"),
        ("clip_norm", -1.0),
        ("clip_norm", float("inf")),
        ("seed", -1),
        ("seed", 2**31),
    ],
)
def test_invalid_values_are_errors(name, value):
    with pytest.raises(InputError, match=rf"{name}='?{value}'? must be"):
        TrainingConfig(**({"num_train_steps": 10} | {name: value}))
