"""Classifiers whose `fit`, `evaluate` and `predict` take texts."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.finetuning.head_model import LabelHeadModel
from albert_tf.finetuning.serving import text_sequences
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.examples import (
    config_of_texts,
    text_task_from_columns,
)
from albert_tf.input_files import read_text, shown
from albert_tf.interop.run_folder import TASK_FILE, fine_tuned_model
from albert_tf.text.base_tokenizer import Tokenizer
from albert_tf.text.preprocessor import EagerPreprocessor, GraphPreprocessor

if TYPE_CHECKING:
    from typing import Self  # new in Python 3.11

# Keras's default.
_BATCH_SIZE = 32
# Batches of datasets have lengths that are multiples of it, as XLA compiles a
# training step for each length.
_LENGTH_MULTIPLE = 32


class TextModel(LabelHeadModel):
    """A `LabelHeadModel` whose `fit`, `evaluate` and `predict` take texts.

    Where these methods take inputs, they also take texts: a list, array or
    tensor of strings `[examples]`; for pairs, a tuple of two of them; or a
    `tf.data.Dataset` with such `x`, batched or not. (As in Keras, a dataset of
    tuples is one of `(x, y)` or `(x, y, sample_weight)`.) The labels are
    then integers or names of `labels`, or numbers. Texts are prepared as by
    `albert finetune`.

    Attributes:
      task_config: the task that the model was trained for with texts, or by
        `albert finetune`; saved by `save_pretrained`. None if there is none.
      max_seq_length: the length in tokens to which texts are truncated.
    """

    # Value of the task's setting `head`.
    TASK_HEAD: str

    def __init__(self, config, num_labels, **kwargs):
        super().__init__(config, num_labels, **kwargs)
        self.task_config: TaskConfig | None = None
        self.max_seq_length = min(
            TaskType.default_settings["max_seq_length"],
            config.num_trained_positions,
        )

    @classmethod
    def from_pretrained(
        cls, path: str | os.PathLike[str], **arguments: Any
    ) -> Self:
        """Creates a model from a checkpoint; see `AlbertModel`.

        A model that was fine-tuned for texts keeps its task and length.
        """
        model = super().from_pretrained(path, **arguments)
        folder = fine_tuned_model(path)
        if folder is not None and not arguments.get("new_head"):
            file = folder / TASK_FILE
            task = TaskConfig.from_json(read_text(file), os.fspath(file))
            known = ("text_classification", "regression")
            same = (task.labels or None) == model.labels
            if task.task_type in known and same:
                model.task_config = task
                model.max_seq_length = task.settings["max_seq_length"]
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
        """Trains the model, like `keras.Model.fit`; `x` may be texts.

        Raises:
          InputError: if texts or labels are not valid, or the model has no
            tokenizer.
        """
        count = _num_texts(x)
        if count:
            self.task_config = self._task(count)
            self.labels = self.task_config.labels
        elif self.task_config is not None:
            # The scores are those of the old weights.
            self.task_config = dataclasses.replace(
                self.task_config, scores={}, baselines={}
            )
        x, y, sample_weight = self._arrays(
            x, y, kwargs.pop("sample_weight", None), batch_size
        )
        if isinstance(validation_data, (list, tuple)):
            given = tuple(validation_data)
            val_x, val_y, weights = keras.utils.unpack_x_y_sample_weight(given)
            data = self._arrays(val_x, val_y, weights, batch_size)
            validation_data = data[: len(given)]
        elif validation_data is not None:
            validation_data, _, _ = self._arrays(
                validation_data, None, None, batch_size
            )
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
        x, y, sample_weight = self._arrays(x, y, sample_weight, batch_size)
        return super().evaluate(
            x,
            y,
            batch_size=batch_size,
            verbose=verbose,
            sample_weight=sample_weight,
            **kwargs,
        )

    def predict(self, x, batch_size=None, **kwargs):
        """Returns the outputs, like `keras.Model.predict`; see `fit`."""
        x, _, _ = self._arrays(x, None, None, batch_size)
        return super().predict(x, batch_size=batch_size, **kwargs)

    def _extra_files(self) -> dict[str, str]:
        if self.task_config is None:
            return {}
        return {TASK_FILE: self._with_length(self.task_config).to_json()}

    def _task(self, num_texts: int) -> TaskConfig:
        """Returns the task of one or two texts to train for."""
        old = self.task_config
        pairs = num_texts == 2
        if old is not None and pairs == (old.source.get("pair") is not None):
            return dataclasses.replace(old, scores={}, baselines={})
        columns: dict[str, str | int] = {"text": "text", "label": "label"}
        if pairs:
            columns["pair"] = "pair"
        is_number = self.num_labels == 1
        numbers = [str(label) for label in range(self.num_labels)]
        task = text_task_from_columns(
            [],
            columns,
            classes=None if is_number else self.labels or numbers,
            number=is_number,
        )
        settings = {"max_seq_length": self.max_seq_length}
        # As in `TextTaskType.optional_settings`.
        if self.TASK_HEAD != "cls":
            settings["head"] = self.TASK_HEAD
        name = "regression" if is_number else "text_classification"
        return config_of_texts(task, name, settings)

    def _with_length(self, task: TaskConfig) -> TaskConfig:
        settings = {**task.settings, "max_seq_length": self.max_seq_length}
        return dataclasses.replace(task, settings=settings)

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
        pairs = self.TASK_HEAD != "cls"
        if self.task_config is not None:
            pairs = self.task_config.source.get("pair") is not None
        elif not pairs:
            return self.tokenizer
        if pairs != (num_texts == 2):
            takes = "two texts: a tuple (first, second)"
            raise InputError(
                f"{type(self).__name__} takes "
                + (takes if pairs else "one text, not two")
                + ", as its task has them"
            )
        return self.tokenizer

    def _arrays(self, x, y, sample_weight, batch_size):
        """Returns the arguments of Keras's methods with ids for texts."""
        count = _num_texts(x)
        if not count:
            return x, self._label_ids(y), sample_weight
        tokenizer = self._check_texts(count)
        if isinstance(x, tf.data.Dataset):
            x = self._dataset(tokenizer, x, batch_size or _BATCH_SIZE)
            return x, y, sample_weight
        texts = [_strings(part) for part in (x if count == 2 else [x])]
        if len({len(part) for part in texts}) > 1:
            raise InputError(
                f"{len(texts[0])} first and {len(texts[1])} second texts must "
                "be as many"
            )
        preprocessor = EagerPreprocessor(tokenizer, self.max_seq_length)
        ids = text_sequences(preprocessor, texts, self.max_seq_length)
        if isinstance(sample_weight, (list, tuple)):
            sample_weight = np.asarray(sample_weight)
        return ids, self._label_ids(y), sample_weight

    def _label_ids(self, y):
        """Returns labels as an array, of integers for names."""
        names = y.tolist() if hasattr(y, "tolist") else y
        if tf.is_tensor(y) and y.dtype == tf.string:
            names = y.numpy().tolist()
        if not isinstance(names, (list, tuple)) or not names:
            return y
        if not isinstance(names[0], (str, bytes)):
            return np.asarray(y) if isinstance(y, (list, tuple)) else y
        ids = {name: i for i, name in enumerate(self.labels or ())}
        names = [x.decode() if isinstance(x, bytes) else x for x in names]
        for number, name in enumerate(names):
            if name not in ids:
                raise InputError(
                    f"label {shown(name)} of text {number} is not one of "
                    f"labels={self.labels}; give labels= to the model, or "
                    "integers"
                )
        return np.array([ids[name] for name in names], np.int32)

    def _dataset(
        self, tokenizer: Tokenizer, data: tf.data.Dataset, batch_size: int
    ) -> tf.data.Dataset:
        """Returns a dataset with ids for texts."""
        if tf.nest.flatten(data.element_spec)[0].shape.rank == 0:
            data = data.batch(batch_size)
        preprocessor = GraphPreprocessor(tokenizer, self.max_seq_length)

        def prepare(x, y=None, sample_weight=None):
            texts = x if isinstance(x, tuple) else (x,)
            if y is not None and y.dtype == tf.string:
                y = self._label_ids_in_graph(y)
            sequences = text_sequences(
                preprocessor,
                texts,
                self.max_seq_length,
                multiple=_LENGTH_MULTIPLE,
            )
            return keras.utils.pack_x_y_sample_weight(
                sequences, y, sample_weight
            )

        return data.map(prepare, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _label_ids_in_graph(self, names: tf.Tensor) -> tf.Tensor:
        if self.labels is None:
            raise InputError(
                "labels are names, but the model has none; give labels= to "
                "the model, or integers"
            )
        found = tf.equal(names[:, None], tf.constant(self.labels))
        known = tf.debugging.Assert(
            tf.reduce_all(tf.reduce_any(found, 1)),
            ["a label is not one of", self.labels, "in", names],
        )
        with tf.control_dependencies([known]):
            return tf.argmax(found, axis=1, output_type=tf.int32)


def _num_texts(x: Any) -> int:
    """Returns the number of texts of an example; 0 if inputs are not texts.

    Raises:
      InputError: if texts are not given as described in `TextModel`.
    """
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        spec = spec[0] if isinstance(spec, tuple) else spec
        parts = spec if isinstance(spec, tuple) else (spec,)
        is_text = [getattr(s, "dtype", None) == tf.string for s in parts]
        return len(parts) if all(is_text) and len(parts) in (1, 2) else 0
    if isinstance(x, (str, bytes)):
        raise InputError(f"{shown(x)} is one text; give a list, [text]")
    if isinstance(x, tuple):
        if x and any(isinstance(part, (str, bytes)) for part in x):
            raise InputError(
                "a tuple must be two lists of texts, (first, second); give "
                "single texts as a list"
            )
        return 2 if len(x) == 2 and all(map(_is_texts, x)) else 0
    if isinstance(x, list) and x and isinstance(x[0], (list, tuple)):
        if x[0] and isinstance(x[0][0], (str, bytes)):
            raise InputError(
                "pairs of texts must be a tuple of two lists, (first, second)"
            )
    return int(_is_texts(x))


def _is_texts(x: Any) -> bool:
    if tf.is_tensor(x):
        return x.dtype == tf.string
    if isinstance(x, list):
        return bool(x) and isinstance(x[0], (str, bytes))
    # NumPy's arrays and pandas's columns.
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    return kind in ("U", "S", "O", "T")


def _strings(texts: Any) -> list[str]:
    """Returns texts as a list of `str`."""
    if tf.is_tensor(texts):
        texts = texts.numpy()
    shape = getattr(texts, "shape", (len(texts),))
    if len(shape) != 1:
        raise InputError(
            f"texts of shape {list(shape)} must have the shape [examples]"
        )
    strings = []
    for number, text in enumerate(texts):
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if not isinstance(text, str):
            raise InputError(f"text {number}, {shown(text)}, must be a string")
        strings.append(str(text))
    return strings
