"""Keras callbacks of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from albert_tf.errors import InputError
from albert_tf.training.config import TrainingConfig


class RunCallbacks:
    """Calls Keras callbacks, such as `CSVLogger` or W&B's, during a run.

    An epoch is the time between two evaluations (`eval_steps`), or the whole
    run without them. The callbacks' methods are called with the metrics of
    `metrics.jsonl`:

    - `on_train_begin`, `on_train_end`
    - `on_train_batch_begin` and `on_train_batch_end` for each line of the log,
      with the number of the step, from 0, as `batch`
    - `on_test_begin` and `on_test_end` after each evaluation
    - `on_epoch_begin` and `on_epoch_end`, whose `logs` are the training metrics
      and, with the prefix `val_`, those of the evaluation

    The model is compiled with an optimizer that does not train it, but has the
    run's `learning_rate` and `iterations`. A callback that sets
    `model.stop_training` ends the run. With several workers, only those of the
    chief are called.

    Raises:
      InputError: if one is not a `keras.callbacks.Callback`.
    """

    def __init__(
        self,
        callbacks: Sequence[keras.callbacks.Callback],
        model: Any,
        config: TrainingConfig,
    ):
        for callback in callbacks:
            if not isinstance(callback, keras.callbacks.Callback):
                raise InputError(
                    f"callbacks: {callback!r} must be a "
                    "keras.callbacks.Callback object"
                )
        self._model = model if callbacks else None
        self._epoch_steps = config.eval_steps or config.num_train_steps
        self._train: Mapping[str, float] = {}
        self._epoch: int | None = None  # The number of the one that has begun.
        if callbacks:
            model.compile(keras.optimizers.SGD(0.0), auto_scale_loss=False)
            model.stop_training = False
        self._list = keras.callbacks.CallbackList(
            list(callbacks),
            model=self._model,
            epochs=-(-config.num_train_steps // self._epoch_steps),
            steps=self._epoch_steps,
            verbose=0,
        )

    @property
    def stop(self) -> bool:
        """Whether a callback has asked to end the run."""
        return self._model is not None and bool(self._model.stop_training)

    def begin(self) -> None:
        """Reports that training starts, or is resumed."""
        self._list.on_train_begin()

    def begin_epoch(self, step: int) -> None:
        """Reports an epoch that begins after `step` updates, if none has."""
        if self._epoch is None:
            self._epoch = step // self._epoch_steps
            self._list.on_epoch_begin(self._epoch)

    def report_training(self, step: int, values: Mapping[str, float]) -> None:
        """Reports metrics of training up to a step."""
        self._train = dict(values)
        if self._model is not None:
            optimizer = self._model.optimizer
            optimizer.learning_rate = values["learning_rate"]
            optimizer.iterations.assign(step)
            self._list.on_train_batch_begin(step - 1)
            self._list.on_train_batch_end(step - 1, dict(values))

    def end_epoch(self, step: int, evaluation: Mapping[str, float]) -> None:
        """Reports an evaluation, which is empty without evaluation data."""
        # None has begun if a stopped run did not do its last evaluation.
        self.begin_epoch(max(0, step - 1))
        if evaluation:
            self._list.on_test_begin()
            self._list.on_test_end(dict(evaluation))
        validation = {f"val_{name}": x for name, x in evaluation.items()}
        self._list.on_epoch_end(self._epoch, {**self._train, **validation})
        self._epoch = None

    def end(self) -> None:
        """Reports that training has ended."""
        self._list.on_train_end(dict(self._train))
