"""Learning-rate schedules.

A schedule maps the step, an integer scalar or tensor, to the learning rate,
float32 of the same shape. The first update of a run is step 0. All schedules
have a linear warm-up of W `warmup_steps`: update k < W has the rate
`base_rate * k / W`. They end at `num_train_steps`, that is, after the last
update, and are constant from there on.
"""

from __future__ import annotations

import abc
import dataclasses
import math

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError, counted


def describe_rate(rate: float, warmup_steps: int) -> str:
    """Says in words how high the learning rate is, and when."""
    if not warmup_steps:
        return f"highest rate {rate:.3g} at the first step"
    return f"highest rate {rate:.3g} after {counted(warmup_steps, 'step')}"


@dataclasses.dataclass(frozen=True)
class Schedule(abc.ABC):
    """Base class of schedules.

    Attributes:
      base_rate: the peak rate, which the warm-up reaches.
      num_train_steps: the step at which the schedule ends.
      warmup_steps: number of warm-up steps.
    """

    base_rate: float
    num_train_steps: int
    warmup_steps: int = 0

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the learning rate, float32 of the shape of `step`."""
        step = tf.cast(step, tf.int32)
        rate = self._after_warmup(step)
        if not self.warmup_steps:
            return rate
        # Factors are grouped as TensorFlow's constant folding groups them in
        # the original's graph, so rates agree to the last bit.
        since_start = step - self._warmup_start()
        warmup = tf.cast(since_start, tf.float32) * (
            np.float32(self.base_rate)
            * (np.float32(1) / np.float32(self.warmup_steps))
        )
        return tf.where(since_start < self.warmup_steps, warmup, rate)

    @property
    def warmup_end(self) -> int:
        """The first step after the warm-up."""
        return self._warmup_start() + self.warmup_steps

    def _warmup_start(self) -> int:
        return 0

    @abc.abstractmethod
    def _after_warmup(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate outside of the warm-up."""


@dataclasses.dataclass(frozen=True)
class PolynomialDecay(Schedule):
    """Linear warm-up, then polynomial decay to zero.

    The original's schedule (google-research/albert, `optimization.py`). The
    decay starts at step 0, so the rate drops a little at the end of the
    warm-up. Before `start_warmup_step`, rates are negative, as in the original.

    Attributes:
      power: exponent of the decay; 1 is linear.
      start_warmup_step: the step at which the warm-up starts from zero.
    """

    power: float = 1.0
    start_warmup_step: int = 0

    def _warmup_start(self):
        return self.start_warmup_step

    def _after_warmup(self, step):
        done = tf.minimum(
            tf.cast(step, tf.float32), np.float32(self.num_train_steps)
        ) * (np.float32(1) / np.float32(self.num_train_steps))
        return np.float32(self.base_rate) * tf.pow(1.0 - done, self.power)


@dataclasses.dataclass(frozen=True)
class LinearDecay(Schedule):
    """Linear warm-up, then linear decay from the peak to zero.

    The first update after the warm-up has `base_rate`; an update
    `num_train_steps` would have zero.
    """

    def _after_warmup(self, step):
        return np.float32(self.base_rate) * (1.0 - _done(self, step))


@dataclasses.dataclass(frozen=True)
class CosineDecay(Schedule):
    """Linear warm-up, then cosine decay from the peak (arXiv:1608.03983).

    Attributes:
      final_fraction: rate at `num_train_steps`, as a fraction of the peak.
    """

    final_fraction: float = 0.0

    def _after_warmup(self, step):
        cosine = 0.5 * (1.0 + tf.cos(math.pi * _done(self, step)))
        final = self.final_fraction
        return np.float32(self.base_rate) * (final + (1.0 - final) * cosine)


@dataclasses.dataclass(frozen=True)
class WarmupStableDecay(Schedule):
    """Linear warm-up, a constant phase, then decay to zero.

    Before the decay, no rate depends on `num_train_steps`: a run in its
    constant phase can be extended, or decayed from any checkpoint
    (arXiv:2404.06395). The decay is that of `decay_factor`.

    Attributes:
      decay_steps: number of steps at the end in which the rate decays to zero;
        0: no decay.
    """

    decay_steps: int = 0

    def __post_init__(self):
        if self.decay_steps > self.num_train_steps - self.warmup_steps:
            raise InputError(
                f"learning rate: decay_steps={self.decay_steps} must be at "
                f"most num_train_steps={self.num_train_steps} less "
                f"warmup_steps={self.warmup_steps}"
            )

    def _after_warmup(self, step):
        base = np.float32(self.base_rate)
        if not self.decay_steps:
            return tf.fill(tf.shape(step), base)
        since = tf.maximum(step - (self.num_train_steps - self.decay_steps), 0)
        since = tf.minimum(since, self.decay_steps)
        done = tf.cast(since, tf.float32) / np.float32(self.decay_steps)
        return base * decay_factor(done)


def decay_factor(done: tf.Tensor) -> tf.Tensor:
    """Returns the factor of the rate in a decay at the end of a run.

    `1 - sqrt(x)` is the best of those compared in arXiv:2405.18392, where the
    decay takes 10 to 20 % of the steps.

    Args:
      done: the fraction of the decay's steps that are done, float32.
    """
    return 1.0 - tf.sqrt(done)


def _done(schedule: Schedule, step: tf.Tensor) -> tf.Tensor:
    """Returns the fraction of the steps after the warm-up that are done."""
    steps = schedule.num_train_steps - schedule.warmup_steps
    since = tf.clip_by_value(step - schedule.warmup_steps, 0, steps)
    # Subtracted as integers: exactly 0 and 1 at the ends.
    return tf.cast(since, tf.float32) / np.float32(steps)


SCHEDULES: dict[str, type[Schedule]] = {
    "polynomial": PolynomialDecay,
    "linear": LinearDecay,
    "cosine": CosineDecay,
    "warmup_stable_decay": WarmupStableDecay,
}
