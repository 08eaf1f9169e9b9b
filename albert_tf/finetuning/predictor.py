"""Prediction with a fine-tuned model or an ensemble."""

from __future__ import annotations

import dataclasses
import itertools
import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.backend import check_backend
from albert_tf.errors import InputError, shown
from albert_tf.finetuning.batches import prediction_batches
from albert_tf.finetuning.example_texts import make_example, text_ranks
from albert_tf.finetuning.features import Features, batched
from albert_tf.finetuning.model_folder import (
    ModelFolder,
    Path,
    load_model,
    open_model_folders,
)
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.models.base import AlbertModel
from albert_tf.runtimes.config import Runtime, choose_runtime
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.runtimes.session import make_session
from albert_tf.schema import check_argument
from albert_tf.text.arguments import check_not_table
from albert_tf.training.distribution import strategy_of_this_machine
from albert_tf.training.progress import reported

Tensors = Mapping[str, tf.Tensor]
Outputs = dict[str, np.ndarray]

# A text, or texts by name, or several of these.
Fields = Mapping[str, str | Sequence[str]]
Inputs = str | Fields | Iterable[str | Fields]


class BatchPredictor:
    """Runs a model on features in batches of similar length; traced once.

    Each replica computes a part of every batch. All workers get all outputs.

    Args:
      strategy: the strategy that the model was created with.
      forward: maps the model and a batch, see `Features.pad`, to outputs by
        name, each `[batch, ...]`; runs in a graph.
      batch_size: number of examples per batch.
      fixed_length: length to pad all batches to, for static shapes (XLA); the
        last batch is then filled up to `batch_size`. None for the longest
        sequence of each batch.
      progress: whether to print a line every few seconds.
      runtime: "keras", or "onnx" or "openvino", see `make_session`.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: AlbertModel,
        forward: Callable[[AlbertModel, Tensors], Tensors],
        *,
        batch_size: int = 32,
        fixed_length: int | None = None,
        progress: bool = False,
        runtime: Runtime = "keras",
    ):
        self._runtime = runtime
        self._progress = progress
        self._strategy = strategy
        self._model = model
        self._forward = forward
        self._batch_size = batch_size
        self._fixed_length = fixed_length
        self._step: Callable | None = None

    def __call__(self, features: Features) -> list[Outputs]:
        """Returns the outputs of each example, by name.

        Features have no columns, except for the model's inputs. Outputs of
        tokens are padded to the longest sequence of the example's batch.
        """
        results: list[Outputs] = [{}] * features.num_examples
        batches = prediction_batches(
            features,
            batch_size=self._batch_size,
            fixed_length=self._fixed_length,
        )
        if self._progress:
            batches = reported(
                batches, lambda batch: len(batch[0]), features.num_examples
            )
        for examples, batch in batches:
            outputs = self._outputs(self._fill_up(batch))
            for offset, example in enumerate(examples):
                results[example] = {
                    name: value[offset] for name, value in outputs.items()
                }
        return results

    def _fill_up(self, batch: Outputs) -> Outputs:
        """Repeats the first example until the batch divides evenly."""
        multiple = self._strategy.num_replicas_in_sync
        if self._fixed_length is not None:
            multiple *= -(-self._batch_size // multiple)
        size = len(batch["input_mask"])
        indices = np.zeros(size + -size % multiple, np.int64)
        indices[:size] = np.arange(size)
        return {name: values[indices] for name, values in batch.items()}

    def _outputs(self, batch: Outputs) -> Outputs:
        if self._step is None:
            self._step = self._make_step(batch)
        if self._runtime != "keras":
            return self._step(batch)
        tensors = {name: tf.constant(x) for name, x in batch.items()}
        return {name: x.numpy() for name, x in self._step(tensors).items()}

    def _make_step(self, batch: Outputs) -> Callable:
        """Makes a function for batches with the names and types of `batch`."""
        if self._runtime != "keras":
            program = IdsProgram(
                model=self._model,
                forward=self._forward,
                inputs=tuple(batch),
                seq_length=self._model.config.max_position_embeddings,
                resizable=True,
            )
            return make_session(program, self._runtime)
        fixed = self._fixed_length is not None
        signature = {
            name: tf.TensorSpec(x.shape if fixed else [None] * x.ndim, x.dtype)
            for name, x in batch.items()
        }
        replicas = self._strategy.num_replicas_in_sync

        def on_replica(batch):
            if replicas == 1:
                return self._forward(self._model, batch)
            replica = tf.distribute.get_replica_context()
            number = replica.replica_id_in_sync_group

            def share(x):
                return tf.reshape(
                    x, tf.concat([[replicas, -1], tf.shape(x)[1:]], 0)
                )[number]

            outputs = self._forward(
                self._model, {name: share(x) for name, x in batch.items()}
            )
            return {n: replica.all_gather(x, 0) for n, x in outputs.items()}

        def step(batch):
            results = self._strategy.run(on_replica, args=(batch,))
            return {
                name: self._strategy.experimental_local_results(x)[0]
                for name, x in results.items()
            }

        return tf.function(step, input_signature=[signature], autograph=False)


def check_batch_size(batch_size: Any) -> None:
    """Raises an `InputError` unless a batch size is a positive integer."""
    check_argument(batch_size, int, "batch_size")
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size} must be positive")


# Number of examples that are sorted by length and predicted at a time.
CHUNK = 2048


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictions:
    """Examples and their predictions.

    `members` has the predictions of each model of an ensemble, by its path.
    """

    examples: Sequence[Any]
    predictions: Sequence[Any]
    members: Mapping[str, Sequence[Any]]


class Predictor:
    """Predicts with a fine-tuned model, or with several as an ensemble.

    For example:

        predictor = Predictor("runs/sst2")
        predictor("A good film.")["label"]

    Args:
      paths: folder of a run or of its model; several form an ensemble.
      changes: settings of the task to override, such as `max_seq_length`.
      batch_size: number of sequences per batch.
      progress: whether to print a line every few seconds.
      runtime: what computes the model: "keras"; "onnx" (ONNX Runtime);
        "openvino"; or "auto", ONNX Runtime if it is installed, else OpenVINO,
        else Keras. Outputs are equal. The others are faster after a
        conversion of about a second, above all on short texts.

    Attributes:
      task_type: the task of the model; of ensembles, that of the first one,
        with the mean of thresholds that were tuned for each model.

    Raises:
      InputError: if there is no model, the models have different tasks, or the
        runtime is not installed.
    """

    def __init__(
        self,
        paths: Path | ModelFolder | Sequence[Path | ModelFolder],
        changes: Mapping[str, Any] | None = None,
        *,
        batch_size: int = 32,
        progress: bool = False,
        runtime: Runtime = "keras",
    ):
        check_backend(type(self).__name__)
        runtime = choose_runtime(runtime)
        if isinstance(paths, (str, os.PathLike, ModelFolder)):
            paths = [paths]
        check_argument(paths, Sequence[Path | ModelFolder], "paths")
        check_batch_size(batch_size)
        folders = open_model_folders(paths)
        strategy = strategy_of_this_machine()
        self._members: dict[str, tuple[TaskType, BatchPredictor]] = {}
        for name, folder in folders.items():
            with strategy.scope():
                loaded = load_model(folder, changes)
            self._members[name] = (
                loaded.task_type,
                BatchPredictor(
                    strategy,
                    loaded.model,
                    loaded.task_type.forward,
                    batch_size=batch_size,
                    progress=progress,
                    runtime=runtime,
                ),
            )
        task_types = [task_type for task_type, _ in self._members.values()]
        self.task_type = task_types[0]
        if len(task_types) > 1:
            self.task_type = make_task_type(
                _ensemble_config(task_types),
                task_types[0].tokenizer,
            )

    def __call__(self, inputs: Inputs) -> Any:
        """Predicts texts.

        Args:
          inputs: texts, or dicts of texts by name, such as
            `{"text": ..., "pair": ...}` or `{"question": ..., "context": ...}`,
            for multiple choice with a list of `options`; or one of these.

        Returns:
          A prediction for each input, as a dict of JSON values as `albert
          predict` writes them; one dict for one input.

        Raises:
          InputError: if an input is not an example of the task.
        """
        check_not_table(inputs, "inputs")
        is_one = isinstance(inputs, (str, Mapping))
        given: Any = [inputs] if is_one else inputs
        if not isinstance(given, Iterable):
            raise InputError(
                f"inputs={shown(inputs)} must be texts or dicts of texts"
            )
        examples = [self.example(x, i) for i, x in enumerate(given)]
        records = self.records(examples)
        return records[0] if is_one else records

    def example(self, given: Any, number: int = 0) -> Any:
        """Makes an example of one input; see `__call__`.

        Args:
          given: a text or a dict of texts.
          number: number of the input: its id, and in error messages.

        Raises:
          InputError: if the input is not an example of the task.
        """
        name = f"inputs[{number}]"
        fields = {"text": given} if isinstance(given, str) else given
        if not isinstance(fields, Mapping):
            raise InputError(f"{name}={shown(given)} must be a text or a dict")
        ranks = text_ranks(self.task_type)
        for key, value in fields.items():
            kind = Sequence[str] if ranks.get(key) == 2 else str
            check_argument(value, kind, f"{name}[{key!r}]")
        try:
            return make_example(self.task_type, fields, str(number))
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    def records(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        """Predicts examples; see `__call__` for the result."""
        predictions = self.predict_examples(examples).predictions
        return list(map(self.task_type.record, examples, predictions))

    def predict_examples(self, examples: Sequence[Any]) -> Predictions:
        """Predicts examples of the task type, all at once.

        Raises:
          InputError: if outputs of a model are not finite.
        """
        members = {}
        for name, (task_type, predict) in self._members.items():
            features = task_type.features(examples, labelled=False)
            outputs = predict(features)
            arrays = itertools.chain(*(x.values() for x in outputs))
            if not all(np.isfinite(x).all() for x in arrays):
                raise InputError(
                    f"model {name}: its predictions are not finite; the model "
                    "has diverged: train it again with a lower learning rate"
                )
            members[name] = task_type.predictions(examples, features, outputs)
        predictions = next(iter(members.values()))
        if len(members) > 1:
            predictions = self.task_type.average(members)
        return Predictions(
            examples=examples, predictions=predictions, members=members
        )

    def chunks(
        self, examples: Iterable[Any], size: int = CHUNK
    ) -> Iterator[Predictions]:
        """Yields the predictions of any number of examples, chunk by chunk.

        Args:
          examples: the examples; may be an iterator.
          size: number of examples per chunk, which are sorted by length.
        """
        yield from map(self.predict_examples, batched(examples, size))


def _ensemble_config(members: Sequence[TaskType]) -> TaskConfig:
    """Returns the first task, with the mean of numbers that differ."""
    first, means = members[0].task_config, {}
    for name, default in first.settings.items():
        # A setting that is None may have a value that the task type chooses.
        values = [
            getattr(x, name, x.task_config.settings.get(name, default))
            for x in members
        ]
        numbers = [x for x in values if isinstance(x, float)]
        if len(numbers) == len(values) and len(set(numbers)) > 1:
            means[name] = statistics.fmean(numbers)
    return first.with_settings(means)
