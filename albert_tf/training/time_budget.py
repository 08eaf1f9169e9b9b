"""A time budget of a run, and the decay of the learning rate that ends it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.training.schedules import (
    Schedule,
    WarmupStableDecay,
    decay_factor,
)

# Without decay_steps, the decay has this share of all steps; 10 to 20 % are
# best in arXiv:2405.18392.
_SHARE = 0.2
# Share of the time that is kept for the last checkpoint.
_RESERVE = 0.01
# Number of launches that the rate of the newest steps is measured over.
_LAUNCHES = 20
# Number of launches after which the steps of the run can be estimated.
_FIRST_LAUNCHES = 4


class LastDecay(NamedTuple):
    """The decay that ends a run in time: updates before it, and its own."""

    first_step: int
    steps: int

    @property
    def end(self) -> int:
        """Number of updates of the run."""
        return self.first_step + self.steps


class TimeBudget:
    """Decides when the learning rate of a run begins its last decay.

    The time of a run is that of its commands with a budget, from the creation
    of the trainer on. What a killed command did after its last checkpoint does
    not count. Once the decay is decided, a run with `WarmupStableDecay` is the
    same, up to rounding, as one with this number of steps.

    Args:
      minutes: the time budget; 0: none.
      schedule: the schedule without a time budget.
      num_train_steps: steps of the run, if it has enough time.
      started: `time.monotonic()` when this command began to count.
      mean: returns the mean of a number over all workers; all call it together.
      state: the `state` of the run's checkpoint; () for a new run.

    Attributes:
      last_decay: the decay, once it is decided; else None.
    """

    def __init__(
        self,
        minutes: float,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        num_train_steps: int,
        *,
        started: float,
        mean: Callable[[float], float] = lambda number: number,
        state: tuple[float, ...] = (),
    ):
        self._seconds = 60 * minutes
        self._schedule = schedule
        self._num_train_steps = num_train_steps
        self._started = started
        self._mean = mean
        self._before, *decided = state or (0.0,)
        self.last_decay: LastDecay | None = None
        with tf.device("CPU:0"):
            self._first_step = tf.Variable(0, trainable=False, dtype=tf.int32)
            self._steps = tf.Variable(0, trainable=False, dtype=tf.int32)
        if decided:
            self._begin(LastDecay(*map(int, decided)))
        self._launches: deque[tuple[float, int]] = deque(maxlen=_LAUNCHES)
        self._first_launch: tuple[float, int] | None = None
        self._evaluation = 0.0
        self._expected_steps = math.inf
        self._has_warned = False

    @staticmethod
    def is_decided(state: tuple[float, ...]) -> bool:
        """Returns whether a `state` has a last decay."""
        return len(state) > 1

    @property
    def is_active(self) -> bool:
        """Whether the run has a budget, or had one that ends it."""
        return bool(self._seconds or self.last_decay)

    @property
    def schedule(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """The schedule of the run: step -> learning rate."""
        return self._rate if self.is_active else self._schedule

    def _rate(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate: that of the schedule, times the decay."""
        rate = self._schedule(step)
        since = tf.cast(step, tf.int32) - self._first_step
        done = tf.cast(tf.clip_by_value(since, 0, self._steps), tf.float32)
        done = tf.math.divide_no_nan(done, tf.cast(self._steps, tf.float32))
        # As in `WarmupStableDecay`, whose constants TensorFlow may round
        # otherwise.
        return rate * decay_factor(done)

    @property
    def last_step(self) -> int:
        """Number of updates of the run, as far as it is decided."""
        if self.last_decay is None:
            return self._num_train_steps
        return self.last_decay.end

    def is_last(self, step: int) -> bool:
        """Returns whether the run ends after `step` updates."""
        return step >= self.last_step

    @property
    def elapsed(self) -> float:
        """Seconds that the run has taken so far."""
        return self._before + time.monotonic() - self._started

    @property
    def state(self) -> tuple[float, ...]:
        """The state for a checkpoint: seconds, and the decay once decided.

        () if no command has had a budget.
        """
        # A command without a budget keeps the time of those that had one.
        seconds = self.elapsed if self._seconds else self._before
        if not (seconds or self.last_decay):
            return ()
        return (seconds, *(self.last_decay or ()))

    def restart_rate(self) -> None:
        """Measures the rate anew, for a phase whose steps take longer."""
        self._launches.clear()
        self._first_launch = None

    def add_evaluation(self, seconds: float) -> None:
        """Records the time of an evaluation: the run ends with one."""
        self._evaluation = max(self._evaluation, seconds)

    def decide(self, step: int, launch: int) -> bool:
        """Begins the last decay if there is just enough time for it.

        All workers call it after each launch of steps, with the number of
        updates done and that of the next launch. Returns whether the decay has
        been decided now: it begins with the next step.
        """
        if not self._seconds:
            return False
        self._launches.append((time.monotonic(), step))
        if self._first_launch is None:  # It includes the compilation.
            self._first_launch = self._launches[0]
        left = self._mean(
            (1 - _RESERVE) * self._seconds - self.elapsed - self._evaluation
        )
        seconds = self._mean(self._seconds_per_step())
        if seconds and len(self._launches) >= _FIRST_LAUNCHES:
            self._expected_steps = step + max(0, math.floor(left / seconds))
        remaining = self._num_train_steps - step
        if self.last_decay or not remaining:
            return False
        if left >= seconds * remaining and left > 0:
            return False
        wanted = self._decay_steps(step)
        if left > seconds * (wanted + launch):
            return False
        possible = math.floor(left / seconds) if seconds else 0
        self._begin(LastDecay(step, max(1, min(wanted, possible, remaining))))
        return True

    def describe_decision(self) -> str:
        """Returns a log line about the decision."""
        assert self.last_decay is not None
        first, steps = self.last_decay
        text = (
            f"time: {self._minutes()} are over; the learning rate decays in "
            f"the {steps:,} steps from {first + 1:,} on, and the run ends "
            f"after step {first + steps:,} instead of {self._num_train_steps:,}"
        )
        if first < self._warmup_end:
            text += (
                f", although the warm-up of {self._warmup_end:,} steps is not "
                f"over: the highest rate is {float(self._schedule(first)):.3g}"
            )
        return text

    def warn_of_warmup(self) -> str:
        """Returns a log line, once, if the run will end in its warm-up."""
        enough = self._expected_steps >= self._warmup_end
        if enough or self._has_warned or self.last_decay:
            return ""
        self._has_warned = True
        return (
            f"time: {self._seconds / 60:g} minutes allow about "
            f"{self._expected_steps:,} steps, fewer than the "
            f"{self._warmup_end:,} of the warm-up; give more time, or fewer "
            "warm-up steps"
        )

    @property
    def _warmup_end(self) -> int:
        if isinstance(self._schedule, Schedule):
            return self._schedule.warmup_end
        return 0

    def describe_end(self, step: int) -> str:
        """Returns a log line about what was reached."""
        text = (
            f"time: {step:,} of {self._num_train_steps:,} steps in "
            f"{self._minutes()}"
        )
        if self.last_decay:
            text += f", the last {self.last_decay.steps:,} with a falling rate"
        return text

    def _minutes(self) -> str:
        # A run may be resumed without the budget that decided on its decay.
        budget = f" of {self._seconds / 60:g}" if self._seconds else ""
        return f"{self.elapsed / 60:.1f}{budget} minutes"

    def _decay_steps(self, step: int) -> int:
        """Returns the wanted number of steps of a decay that begins now."""
        if isinstance(self._schedule, WarmupStableDecay):
            if self._schedule.decay_steps:
                return self._schedule.decay_steps
        return max(1, round(step * _SHARE / (1 - _SHARE)))

    def _seconds_per_step(self) -> float:
        """Returns the time per step, evaluations and checkpoints included.

        The larger one of that of the newest steps and that of all.
        """
        last, step = self._launches[-1]
        starts = [x for x in (self._first_launch, self._launches[0]) if x]
        return max(
            (last - before) / (step - first) if step > first else 0.0
            for before, first in starts
        )

    def _begin(self, decay: LastDecay) -> None:
        self.last_decay = decay
        self._first_step.assign(decay.first_step)
        self._steps.assign(decay.steps)
