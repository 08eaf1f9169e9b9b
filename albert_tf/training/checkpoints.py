"""The checkpoints of a run: written while it goes on, restored, pruned."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError
from albert_tf.training.background_writer import BackgroundWriter
from albert_tf.training.best_checkpoint import Best, read_best, write_best
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
    remove_checkpoint,
    remove_unfinished,
    write_checkpoint,
)
from albert_tf.training.rollbacks import Rollback
from albert_tf.training.saved_values import assign_values
from albert_tf.training.variables import by_name

_ROLLBACKS = "rollbacks"


class Checkpoints:
    """The checkpoints of one run: writes, lists, restores and prunes them.

    Writing takes place in the background; as a context manager this waits for
    it at the end, however that comes. In a run of several workers every one
    restores, from the same folder, and only the chief writes.

    Args:
      folder: where they are; created by the first save.
      variables: what to save, by stable name; see `training_variables`.
      seed: the seed of the run; a checkpoint of another seed is refused.
      keep: how many of the newest checkpoints stay. The best one stays too.
      reach: where given, the newest checkpoint that lies at least so many
        steps back stays as well.
      writes: whether this process writes.

    Attributes:
      rollbacks: those of the run so far; saved and restored with the variables.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        variables: Mapping[str, tf.Variable],
        *,
        seed: int = 0,
        keep: int = 5,
        reach: int | None = None,
        writes: bool = True,
    ):
        self._folder = os.fspath(folder)
        self._variables = dict(variables)
        self._seed = seed
        self._keep = keep
        self._reach = reach
        self._writes = writes
        self._best = read_best(self._folder)
        self._step = 0  # of the variables, when last saved or restored
        self._writer = BackgroundWriter()
        self.rollbacks: tuple[Rollback, ...] = ()
        if writes:
            remove_unfinished(self._folder)

    def save(self, step: int) -> None:
        """Starts to write the checkpoint of `step`, with the values of now.

        It is listed once it is complete. Then those are removed that are not to
        stay, and those of later steps: a run that went back behind them is
        rewriting that history.

        Raises:
          OSError: the checkpoint that was being written before cannot be; this
            one's trouble is raised by the next `save` or by `wait`.
        """
        if not self._writes:
            return
        # One copy of the values at a time.
        self._writer.wait()
        self._step = step
        values = self._snapshot(step)

        def write():
            write_checkpoint(self._folder, step, values)
            self._remove(lambda other: other > step)
            self._prune(step)

        self._writer.submit(write)

    def wait(self) -> None:
        """Waits until all is written.

        Raises:
          OSError: it cannot be.
        """
        self._writer.wait()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *exception) -> None:
        self._writer.__exit__(*exception)

    def keep_best(self, best: Best | None) -> None:
        """Records which checkpoint is the best, and lets go of that before.

        Args:
          best: of a step that `save` was called for; None: there is none.
        """
        if best == self._best or not self._writes:
            return
        self._best = best

        def write():
            write_best(self._folder, best)
            self._prune(self._step)

        self._writer.submit(write)

    def steps(self) -> list[int]:
        """Returns the steps whose checkpoints are there, readable or not."""
        return list(list_checkpoints(self._folder))

    def is_finite(self) -> bool:
        """Whether no variable has a value that is NaN or infinite."""
        return all(
            bool(tf.reduce_all(tf.math.is_finite(variable.read_value())))
            for variable in self._variables.values()
            if variable.dtype.is_floating
        )

    def rewrite(self, step: int, rollbacks: tuple[Rollback, ...]) -> None:
        """Makes the checkpoint that was restored the newest, with rollbacks.

        Raises:
          OSError: it cannot be written.
        """
        self.rollbacks = rollbacks
        if not self._writes:
            return
        # Those after it first: killed in between, the run must not find them
        # without the one that it was to go back to.
        self._remove(lambda other: other > step)
        self.save(step)
        self.wait()

    def _snapshot(self, step: int) -> dict[str, tf.Tensor]:
        """Returns the values as they are, in host memory.

        Tensors do not change: where a variable's memory is the tensor's, the
        next update of the variable gets memory of its own.
        """
        with tf.device("CPU:0"):
            values = {
                name: tf.identity(variable.read_value())
                for name, variable in self._variables.items()
            }
            values["step"] = tf.constant(step, tf.int64)
            values["seed"] = tf.constant(self._seed, tf.int64)
            if self.rollbacks:
                values[_ROLLBACKS] = tf.constant(self.rollbacks, tf.int64)
        return values

    def _prune(self, step: int) -> None:
        """Removes, up to `step`, what is not to stay."""
        past = [s for s in list_checkpoints(self._folder) if s <= step]
        stay = set(past[-self._keep :])
        if self._best:
            stay.add(self._best.step)
        if self._reach is not None:
            stay.update([s for s in past if s <= step - self._reach][-1:])
        self._remove(lambda other: other <= step and other not in stay)

    def _remove(self, is_stale: Callable[[int], bool]) -> None:
        for step, path in list_checkpoints(self._folder).items():
            if is_stale(step):
                remove_checkpoint(path)

    def restore_latest(self, at_most: int | None = None) -> int | None:
        """Restores the newest checkpoint that can be read.

        A damaged one is passed over, with a warning, for the one before.

        Args:
          at_most: the last step that may be restored.

        Returns:
          Its step, or None where there is no checkpoint yet.

        Raises:
          InputError: the checkpoint is of another model, optimizer or seed, or
            none of those that are there can be read. Nothing is restored.
        """
        found = {
            step: path
            for step, path in list_checkpoints(self._folder).items()
            if at_most is None or step <= at_most
        }
        for step in reversed(found):
            try:
                values = read_checkpoint(found[step])
            except InputError as error:
                logging.warning("%s; going back to the one before", error)
                continue
            self._restore(values, found[step])
            self._step = step
            return step
        if found:
            raise InputError(
                f"none of the {len(found)} checkpoints in {self._folder} can "
                "be read; restore them from a backup or use another folder"
            )
        return None

    def _restore(self, values: dict[str, np.ndarray], source: str) -> None:
        seed = int(values.pop("seed", -1))
        values.pop("step", None)
        rollbacks = values.pop(_ROLLBACKS, ())
        if seed != self._seed:
            raise InputError(
                f"{source} was trained with seed={seed}, not {self._seed}; use "
                "that seed or another folder"
            )
        unknown = sorted(values.keys() - self._variables.keys())
        if unknown:
            raise InputError(
                f"{source} holds {unknown[0]}, which this run does not have; "
                "resume with the settings it was written with"
            )
        assign_values(self._variables, values, source)
        self.rollbacks = tuple(Rollback(*map(int, row)) for row in rollbacks)


def training_variables(
    model: Any, optimizer: Any, loss_scale: Any = None, averages: Any = None
) -> dict[str, tf.Variable]:
    """Returns all variables that a resumed run needs, by name."""
    named = {f"model/{n}": v for n, v in by_name(model.weights).items()}
    named |= {f"optimizer/{n}": v for n, v in optimizer.slots.items()}
    if averages is not None:
        average = averages.variables
        named |= {f"average/{n}": v for n, v in average.items()}
    if loss_scale is not None:
        scale = loss_scale.variables
        named |= {f"loss_scale/{n}": v for n, v in scale.items()}
    return named
