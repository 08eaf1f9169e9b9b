"""Base class of task models, which take strings."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.fit_labels import with_label_ids
from albert_tf.finetuning.fit_texts import as_lists, as_strings, count_texts
from albert_tf.finetuning.serving import Preprocessor, text_sequences
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.input_files import read_text
from albert_tf.interop.checkpoint import Checkpoint
from albert_tf.interop.run_folder import TASK_FILE, fine_tuned_model
from albert_tf.models.base import AlbertModel
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.packing import ENCODER_INPUTS
from albert_tf.text.preprocessor import EagerPreprocessor, GraphPreprocessor

if TYPE_CHECKING:
    from typing import Self  # new in Python 3.11

_logger = logging.getLogger(__name__)

# Keras's default.
_BATCH_SIZE = 32
_LENGTH_MULTIPLE = 32


def read_task(checkpoint: Checkpoint) -> TaskConfig | None:
    """Returns the task that a checkpoint was fine-tuned for, if any."""
    folder = checkpoint.folder and fine_tuned_model(checkpoint.folder)
    if not folder:
        return None
    file = folder / TASK_FILE
    return TaskConfig.from_json(read_text(file), os.fspath(file))


class TaskModel(AlbertModel):
    """A model whose `fit`, `evaluate` and `predict` take strings.

    Where these methods take inputs, they also take strings: a list or another
    sequence, array or tensor of them `[examples]`; a tuple of these if an
    example has several, such as a pair of texts; or a `tf.data.Dataset` with
    such `x`, batched or not. (As in Keras, a dataset of tuples is one of
    `(x, y)` or `(x, y, sample_weight)`.) They are prepared as by `albert
    finetune`, with the model's tokenizer.

    Attributes:
      task_config: the task that the model was trained for with strings, or by
        `albert finetune`; saved by `save_pretrained`. None if there is none.
      max_seq_length: the length in tokens to which texts are truncated.
    """

    # Names of the task types that have this model.
    TASK_TYPES: ClassVar[Sequence[str]]
    # The known task that a model is trained for with strings.
    TASK: TaskConfig
    # How many strings, or lists of them, an example may have.
    NUM_TEXTS: ClassVar[Sequence[int]] = (1,)
    # Rank of the last of them: 2 for the options of questions.
    LAST_RANK: ClassVar[int] = 1
    # Settings of the task that are lengths beside `max_seq_length`.
    LENGTHS: ClassVar[Sequence[str]] = ()
    # Arguments of the model that are those of its encoder.
    ENCODER_ARGUMENTS: ClassVar[Sequence[str]] = (
        "packed",
        "rematerialize",
        "output_attentions",
    )
    # Whether outputs have an axis of tokens.
    TOKEN_OUTPUTS: ClassVar[bool] = False

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.task_config: TaskConfig | None = None
        self._other_task = ""
        self.max_seq_length = min(
            TaskType.default_settings["max_seq_length"],
            config.num_trained_positions,
        )

    def _add_encoder(self, *, pooler: bool = False, **arguments: bool) -> None:
        """Creates the encoder; `arguments` are those of `ENCODER_ARGUMENTS`."""
        self.encoder = AlbertEncoder(
            self.config, pooler=pooler, dtype=self.dtype_policy, **arguments
        )

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, *, new_head: bool = False, **arguments: Any
    ) -> Self:
        """Creates a model from an open checkpoint; see `AlbertModel`.

        A model that was fine-tuned keeps its task and length.
        """
        model = super().from_checkpoint(
            checkpoint, new_head=new_head, **arguments
        )
        if not new_head and (task := read_task(checkpoint)):
            labels = getattr(model, "labels", None)
            if labels is None and len(task.labels or ()) == getattr(
                model, "num_labels", 0
            ):
                # Names that look like Hugging Face's placeholders.
                model.labels = labels = task.labels
            same = (task.labels or None) == labels
            if task.task_type in cls.TASK_TYPES and same:
                model.task_config = task
                model.max_seq_length = task.settings["max_seq_length"]
            elif task.task_module is not None:
                model._other_task = task.task_type
        return model

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        task = self.task_config
        return {
            **super().get_config(),
            **{x: getattr(self.encoder, x) for x in self.ENCODER_ARGUMENTS},
            "max_seq_length": self.max_seq_length,
            "multi_label": self.multi_label,
            "task": task and task.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> Self:
        """Creates a model from the output of `get_config`."""
        config = dict(config)
        # Files of earlier releases have none of these.
        length = config.pop("max_seq_length", None)
        multi_label = config.pop("multi_label", False)
        task = config.pop("task", None)
        model = super().from_config(config, custom_objects)
        model.max_seq_length = length or model.max_seq_length
        model.multi_label = multi_label
        model.task_config = task and TaskConfig.from_dict(task)
        return model

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        **kwargs,
    ):
        """Trains the model, like `keras.Model.fit`; `x` may be strings.

        Raises:
          InputError: if texts or labels are not valid, or the model has no
            tokenizer.
        """
        class_weight = kwargs.pop("class_weight", None)
        names = ("task_config", "multi_label", "labels")
        before = {n: getattr(self, n) for n in names if hasattr(self, n)}
        try:
            x, y, sample_weight, validation_data = self._training_arrays(
                as_lists(x),
                as_lists(y),
                kwargs.pop("sample_weight", None),
                batch_size,
                validation_data,
            )
            if class_weight:
                x, sample_weight, kwargs["class_weight"] = self._class_weight(
                    x, y, sample_weight, class_weight
                )
        except Exception:
            for name, value in before.items():
                setattr(self, name, value)
            raise
        return super().fit(
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_split=validation_split,
            validation_data=validation_data,
            sample_weight=sample_weight,
            **kwargs,
        )

    def _training_arrays(self, x, y, sample_weight, batch_size, validation):
        """Sets the task to train for; returns arguments of Keras's `fit`."""
        count = self._num_texts(x)
        if self.task_config is not None:
            # The scores are those of the old weights.
            self.task_config = self.task_config.without_scores()
        if count:
            self.task_config = self._task(count)
        arrays = self._arrays(x, y, sample_weight, batch_size)
        if count and y is None and not isinstance(x, tf.data.Dataset):
            raise InputError(
                "fit needs y, the labels of the texts; a tuple as x is read as "
                "lists of texts, such as (first, second), not as (x, y)"
            )
        if isinstance(validation, (list, tuple)):
            given = as_lists(tuple(validation))
            val_x, val_y, weights = keras.utils.unpack_x_y_sample_weight(given)
            data = self._arrays(val_x, val_y, weights, batch_size)
            # Models of tokens make weights of their own.
            validation = data if data[2] is not None else data[: len(given)]
        elif validation is not None:
            validation, _, _ = self._arrays(validation, None, None, batch_size)
        if count:
            length = self.max_seq_length  # A dataset's lengths are not known.
            if not isinstance(x, tf.data.Dataset):
                length = arrays[0][ENCODER_INPUTS[0]].shape[-1]
            self.note_trained_positions(length)
        return *arrays, validation

    def _class_weight(
        self, x, y, sample_weight, class_weight
    ) -> tuple[Any, Any, dict[Any, float] | None]:
        """Returns `x`, `sample_weight` and `class_weight` for Keras's `fit`."""
        return x, sample_weight, class_weight

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        **kwargs,
    ):
        """Evaluates the model, like `keras.Model.evaluate`; see `fit`."""
        x, y, sample_weight = self._arrays(
            as_lists(x), as_lists(y), sample_weight, batch_size
        )
        return super().evaluate(
            x,
            y,
            batch_size=batch_size,
            verbose=verbose,
            sample_weight=sample_weight,
            **kwargs,
        )

    def predict(self, x, batch_size=None, **kwargs):
        """Returns the outputs, like `keras.Model.predict`; see `fit`.

        Outputs for the tokens of a dataset of strings have the length
        `max_seq_length`, and those of other strings that of the longest.
        """
        multiple = 0
        # Keras concatenates batches, which then have the same length.
        if self.TOKEN_OUTPUTS or self.encoder.output_attentions:
            multiple = self.max_seq_length
        x = as_lists(x)
        if isinstance(x, tf.data.Dataset) and isinstance(x.element_spec, tuple):
            x = x.map(lambda x, *_: (x,))  # Keras predicts without labels.
        x, _, _ = self._arrays(x, None, None, batch_size, multiple)
        return super().predict(x, batch_size=batch_size, **kwargs)

    def _extra_files(self) -> dict[str, str]:
        if self.task_config is None:
            if self._other_task:
                _logger.warning(
                    "%s does not save the task, of the type %r; copy %s from "
                    "the folder that it was loaded from",
                    type(self).__name__,
                    self._other_task,
                    TASK_FILE,
                )
            return {}
        task = dataclasses.replace(self.task_config, settings=self._settings)
        return {TASK_FILE: task.to_json()}

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings of the task, with the model's length."""
        settings = defaults = self._default_settings()
        if self.task_config is not None:
            settings = self.task_config.settings
        # A task's other lengths may not fit into a lower one.
        if self.max_seq_length < settings.get("max_seq_length", 0):
            lower = {n: min(settings[n], defaults[n]) for n in self.LENGTHS}
            settings = {**settings, **lower}
        return {**settings, "max_seq_length": self.max_seq_length}

    def _default_settings(self) -> dict[str, Any]:
        """Returns the settings of a new task, for `max_seq_length`."""
        return dict(self.TASK.settings)

    def _task(self, num_texts: int) -> TaskConfig:
        """Returns the task to train for."""
        task = self.task_config or self.TASK
        return dataclasses.replace(task, settings=self._settings)

    def _check_texts(self, num_texts: int) -> Tokenizer:
        """Checks that the model takes such texts; returns its tokenizer."""
        if self.tokenizer is None:
            raise InputError(
                f"{type(self).__name__} has no tokenizer for texts; set "
                "model.tokenizer = "
                'albert_tf.AlbertTokenizer.from_file("spiece.model")'
            )
        positions = self.config.max_position_embeddings
        if not 5 <= self.max_seq_length <= positions:
            raise InputError(
                f"max_seq_length={self.max_seq_length} must be in [5, "
                f"{positions}]; {positions} is the model's "
                "max_position_embeddings"
            )
        return self.tokenizer

    def _sequences(
        self,
        preprocessor: Preprocessor,
        texts: Sequence[Any],
        y,
        sample_weight,
        multiple: int = 1,
    ):
        """Makes inputs, targets and weights, eagerly or in a graph.

        `texts` has the strings of each text of the examples, in a list or
        tensor. For `multiple` see `pack_to_longest`.
        """
        sequences = text_sequences(
            preprocessor, texts, self.max_seq_length, multiple=multiple
        )
        return sequences, self._targets(y), sample_weight

    def _targets(self, y):
        """Returns targets as an array or tensor."""
        return np.asarray(y) if isinstance(y, (list, tuple)) else y

    def _arrays(self, x, y, sample_weight, batch_size, multiple=0):
        """Returns the arguments of Keras's methods with ids for texts."""
        count = self._num_texts(x)
        if isinstance(sample_weight, (list, tuple)):
            sample_weight = np.asarray(sample_weight)
        if not count:
            if isinstance(x, tf.data.Dataset):
                x = with_label_ids(x, self._targets)
            return x, self._targets(y), sample_weight
        tokenizer = self._check_texts(count)
        if isinstance(x, tf.data.Dataset):
            if tf.nest.flatten(x.element_spec)[0].shape.rank == 0:
                x = x.batch(batch_size or _BATCH_SIZE)
            if not multiple:  # XLA compiles a step for each length.
                # Else, losses of tokens would be means over more padding.
                is_padded = self.jit_compile or not self.TOKEN_OUTPUTS
                multiple = _LENGTH_MULTIPLE if is_padded else 1
            return self._dataset(tokenizer, x, multiple), y, sample_weight
        *first, last = x if count > 1 else [x]
        texts = [*map(as_strings, first), as_strings(last, self.LAST_RANK)]
        sizes = [len(part) for part in texts]
        if len(set(sizes)) > 1:
            raise InputError(
                "lists of texts must have the same length, not "
                f"{' and '.join(map(str, sizes))}"
            )
        preprocessor = EagerPreprocessor(tokenizer, self.max_seq_length)
        return self._sequences(preprocessor, texts, y, sample_weight)

    def _dataset(
        self, tokenizer: Tokenizer, data: tf.data.Dataset, multiple: int
    ) -> tf.data.Dataset:
        """Returns a dataset of batches with ids for texts."""
        preprocessor = GraphPreprocessor(tokenizer, self.max_seq_length)

        def prepare(x, y=None, sample_weight=None):
            texts = x if isinstance(x, tuple) else (x,)
            return keras.utils.pack_x_y_sample_weight(
                *self._sequences(
                    preprocessor, texts, y, sample_weight, multiple
                )
            )

        return data.map(prepare, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _num_texts(self, x: Any) -> int:
        """Returns the number of texts of an example; 0 for other inputs."""
        return count_texts(x, type(self).__name__, self.NUM_TEXTS)
