"""The learning-rate schedule of a pretraining run."""

from __future__ import annotations

from albert_tf.pretraining.config import PretrainConfig
from albert_tf.training.schedules import SCHEDULES, Schedule


def make_schedule(config: PretrainConfig) -> Schedule:
    """Creates the learning-rate schedule of a run."""
    options: dict[str, dict[str, float]] = {
        "polynomial": {
            "power": config.poly_power,
            "start_warmup_step": config.start_warmup_step,
        },
        "linear": {},
        "cosine": {"final_fraction": config.final_lr_fraction},
        "warmup_stable_decay": {"decay_steps": config.decay_steps},
    }
    return SCHEDULES[config.schedule](
        config.resolved_learning_rate,
        config.num_train_steps,
        config.resolved_warmup_steps,
        **options[config.schedule],
    )
