"""Checkpoints of a run: saved in the background, restored and pruned."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.file_types import check_tf_path
from albert_tf.interop.run_folder import CHECKPOINTS
from albert_tf.training.best_checkpoint import Best, read_best, write_best
from albert_tf.training.checkpoint_files import (
    BEST,
    TIME,
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
    remove_checkpoint,
    remove_unfinished,
    write_checkpoint,
)
from albert_tf.training.config import BatchRange, TrainingConfig
from albert_tf.training.optimizers import by_name

_logger = logging.getLogger(__name__)

_SKIPPED = "skipped_batches"


class Checkpoints:
    """Saves, restores and prunes the checkpoints of a run.

    A background thread writes one checkpoint at a time, so at most one copy of
    the values is in memory. Used as a context manager, it waits for the thread
    on exit. With several workers, all restore from the same folder and only the
    chief writes.

    Args:
      folder: folder of the checkpoints; created by the first save.
      variables: the variables to save, by name; see `training_variables`.
      seed: the seed of the run; checkpoints of another seed are not restored.
      keep: number of the newest checkpoints to keep, besides the best one.
      is_writer: whether this process writes.

    Attributes:
      skipped: the batches that the run skips; saved with the variables.
      time: the state of the run's `TimeBudget`, () without one; likewise.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        variables: Mapping[str, tf.Variable],
        *,
        seed: int = 0,
        keep: int = 5,
        is_writer: bool = True,
    ):
        self._folder = os.fspath(folder)
        self._variables = dict(variables)
        self._seed = seed
        self._keep = keep
        self._is_writer = is_writer
        self._best = read_best(self._folder)
        self._step = 0  # last step that was saved or restored
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._pending: Future | None = None
        self.skipped: tuple[BatchRange, ...] = ()
        self.time: tuple[float, ...] = ()
        if is_writer:
            remove_unfinished(self._folder)

    def save(self, step: int) -> None:
        """Starts to write the current values as the checkpoint of `step`.

        When it is complete, old checkpoints are pruned, and those of later
        steps, which could not be read, are removed, too. If it cannot be
        written, the next `save` or `wait` raises the `OSError`.
        """
        if not self._is_writer:
            return
        self.wait()  # Keep one copy of the values at a time.
        self._step = step
        values = self._snapshot(step)

        def write():
            write_checkpoint(self._folder, step, values)
            self._remove(lambda other: other > step)
            self._prune(step)

        self._pending = self._writer.submit(write)

    def wait(self) -> None:
        """Waits until everything is written; raises its `OSError` once."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *exception) -> None:
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def keep_best(self, best: Best | None) -> None:
        """Records the best checkpoint, so that pruning keeps it.

        `best` is the evaluation of a step that was saved; None to forget the
        best.
        """
        if best == self._best or not self._is_writer:
            return
        self._best = best

        def write():
            write_best(self._folder, best)
            self._prune(self._step)

        self.wait()
        self._pending = self._writer.submit(write)

    def steps(self) -> list[int]:
        """Returns the steps of all checkpoints, including damaged ones."""
        return list(list_checkpoints(self._folder))

    def is_finite(self) -> bool:
        """Returns whether all values of all variables are finite."""
        return all(
            bool(tf.reduce_all(tf.math.is_finite(variable.read_value())))
            for variable in self._variables.values()
            if variable.dtype.is_floating
        )

    def _snapshot(self, step: int) -> dict[str, tf.Tensor]:
        """Copies the current values to host memory.

        On CPU the copy may share memory with the variable, whose next update
        then allocates new memory.
        """
        with tf.device("CPU:0"):
            values = {
                name: tf.identity(variable.read_value())
                for name, variable in self._variables.items()
            }
            values["step"] = tf.constant(step, tf.int64)
            values["seed"] = tf.constant(self._seed, tf.int64)
            if self.skipped:
                values[_SKIPPED] = tf.constant(self.skipped, tf.int64)
            if self.time:
                values[TIME] = tf.constant(self.time, tf.float64)
        return values

    def _prune(self, step: int) -> None:
        """Removes old checkpoints up to `step`."""
        past = [s for s in list_checkpoints(self._folder) if s <= step]
        kept = set(past[-self._keep :])
        if self._best:
            kept.add(self._best.step)
        self._remove(lambda other: other <= step and other not in kept)

    def _remove(self, is_stale: Callable[[int], bool]) -> None:
        for step, path in list_checkpoints(self._folder).items():
            if is_stale(step):
                remove_checkpoint(path)

    def restore_latest(self) -> int | None:
        """Restores the newest readable checkpoint; warns of damaged ones.

        Returns:
          The step of the checkpoint, or None if there is no checkpoint yet.

        Raises:
          InputError: if the checkpoint belongs to another model, optimizer or
            seed, or no checkpoint can be read. Nothing is restored.
        """
        found = list_checkpoints(self._folder)
        for step in reversed(found):
            try:
                values = read_checkpoint(found[step])
            except InputError as error:
                _logger.warning("%s; going back to the one before", error)
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
        skipped = values.pop(_SKIPPED, ())
        time = values.pop(TIME, ())
        if seed != self._seed:
            raise InputError(
                f"{source} was trained with seed={seed}, not {self._seed}; use "
                "that seed or another folder"
            )
        if unknown := values.keys() - self._variables.keys():
            raise InputError(
                f"{source} holds {min(unknown)}, which this run does not have; "
                "resume with the settings it was written with"
            )
        assign_values(self._variables, values, source)
        self.skipped = tuple((int(a), int(b)) for a, b in skipped)
        self.time = tuple(map(float, time))


def open_checkpoints(
    run_dir: str | os.PathLike[str] | None,
    config: TrainingConfig,
    variables: Mapping[str, tf.Variable],
    *,
    is_writer: bool,
) -> Checkpoints | None:
    """Returns the `Checkpoints` of a run; None if it has no folder."""
    if run_dir is None:
        if config.best_metric:
            raise InputError(
                "best_metric requires run_dir, a folder to write to"
            )
        return None
    check_tf_path(run_dir)
    return Checkpoints(
        os.path.join(os.fspath(run_dir), CHECKPOINTS),
        variables,
        seed=config.seed,
        keep=config.keep_checkpoint_max,
        is_writer=is_writer,
    )


def training_variables(
    model: Any, optimizer: Any, loss_scale: Any = None, averages: Any = None
) -> dict[str, tf.Variable]:
    """Returns all variables that a run is resumed from, by name."""
    groups = {"model": by_name(model.weights), "optimizer": optimizer.slots}
    if averages is not None:
        groups["average"] = averages.variables
    if loss_scale is not None:
        groups["loss_scale"] = loss_scale.variables
    return {
        f"{group}/{name}": variable
        for group, variables in groups.items()
        for name, variable in variables.items()
    }


def load_model_variables(model: Any, path: str | os.PathLike[str]) -> int:
    """Loads only the weights of a model from a checkpoint of a run.

    If the run averages its weights, the averages are loaded. The newest
    checkpoint of a run's folder is used; see `find_checkpoint`. Returns its
    step. If a variable is missing, unused or of another shape, the model is
    unchanged.
    """
    prefix = find_checkpoint(path)
    values = read_checkpoint(prefix)
    for name in [n for n in values if n.startswith("average/")]:
        values["model/" + name.removeprefix("average/")] = values[name]
    variables = {f"model/{n}": v for n, v in by_name(model.weights).items()}
    unused = {x for x in values if x.startswith("model/")} - variables.keys()
    if unused:
        raise InputError(
            f"{prefix} holds {min(unused)}, which the model does not have; "
            "load it into the model it was trained as"
        )
    assign_values(variables, values, prefix)
    return int(values["step"])


def load_best_variables(model: Any, run_dir: str | os.PathLike[str]) -> int:
    """Loads the best weights of a run or, without a record, the newest.

    See `load_model_variables`.
    """
    path = os.fspath(run_dir)
    if read_best(os.path.join(path, CHECKPOINTS)) is not None:
        path = os.path.join(path, BEST)
    return load_model_variables(model, path)


def assign_values(
    variables: Mapping[str, tf.Variable],
    values: Mapping[str, np.ndarray],
    source: str,
) -> None:
    """Assigns a value to every variable, or to none if one does not fit.

    A missing or misshapen value is an `InputError` that names the `source`.
    Values of other names are ignored.
    """
    for name, variable in variables.items():
        if name not in values:
            raise InputError(
                f"{source} has no {name}; it was written for another model or "
                "optimizer"
            )
        if values[name].shape != tuple(variable.shape):
            raise InputError(
                f"{source}: {name} has shape {list(values[name].shape)}, "
                f"expected {variable.shape.as_list()}; it was written for "
                "another model"
            )
    for name, variable in variables.items():
        variable.assign(values[name])
