"""Base classes of task models with a head on the encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, shown
from albert_tf.finetuning.fit_labels import check_class_ids
from albert_tf.finetuning.task_model import TaskModel
from albert_tf.layers.core import dense
from albert_tf.layers.dropout import Dropout
from albert_tf.models.arguments import check_dropout, check_positive
from albert_tf.text.arguments import check_not_table


class HeadModel(TaskModel):
    """Encoder, dropout and a dense layer of `num_outputs`, named `HEAD`.

    Its inputs are `WIDTH` times as wide as the hidden states. Subclasses define
    the default name of the model, `NAME`, and whether the encoder has a pooler,
    `POOLER`. For the other arguments see `AlbertClassifier`.
    """

    HEAD: ClassVar[str]
    NAME: ClassVar[str]
    POOLER: ClassVar[bool] = True
    WIDTH: ClassVar[int] = 1

    def __init__(
        self,
        config: AlbertConfig,
        num_outputs: int = 1,
        *,
        dropout: float = 0.1,
        packed: bool = False,
        rematerialize: bool = False,
        output_attentions: bool = False,
        **kwargs,
    ):
        dropout = check_dropout(type(self).__name__, dropout)
        super().__init__(config, **{"name": self.NAME, **kwargs})
        self.head_dropout = dropout
        self._add_encoder(
            pooler=self.POOLER,
            packed=packed,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        head = dense(config, num_outputs, self.HEAD, "float32")
        inputs = (None, self.WIDTH * config.hidden_size)
        head.build(inputs)
        self.dropout.build(inputs)
        setattr(self, self.HEAD, head)
        self.complete()

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        if new_head or cls.HEAD not in checkpoint.components:
            return {}
        return {"dropout": checkpoint.head.dropout}

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {**super().get_config(), "dropout": self.dropout.rate}

    def pooled(self, inputs, training):
        """Returns the pooled output, and the attentions or None."""
        if not self.encoder.output_attentions:
            return self.encoder.pooled_output(inputs, training=training), None
        outputs = self.encoder(inputs, training=training)
        return outputs["pooled_output"], outputs["attentions"]


class LabelHeadModel(HeadModel):
    """A `HeadModel` whose outputs are logits of labels."""

    HEAD_ARGUMENTS: ClassVar = {"num_labels": "..."}

    def __init__(
        self,
        config: AlbertConfig,
        num_labels: int,
        *,
        dropout: float = 0.1,
        labels: Sequence[str] | None = None,
        packed: bool = False,
        rematerialize: bool = False,
        output_attentions: bool = False,
        **kwargs,
    ):
        labels = _check_labels(type(self).__name__, num_labels, labels)
        super().__init__(
            config,
            num_labels,
            dropout=dropout,
            packed=packed,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
            **kwargs,
        )
        self.num_labels = num_labels
        self.labels = labels

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        decided = super()._arguments_from(checkpoint, new_head, given)
        if decided:
            head = checkpoint.head
            decided["num_labels"] = head.num_labels
            if given.get("num_labels", head.num_labels) == head.num_labels:
                names = head.labels or ()
                is_unique = len({*names}) == len(names)
                decided["labels"] = head.labels if is_unique else None
                cls._check_order(given.get("labels"), decided["labels"])
        return decided

    @staticmethod
    def _check_order(
        given: Sequence[str] | None, labels: Sequence[str] | None
    ) -> None:
        """Checks that labels are not those of the head in another order."""
        if not given or not labels or [*given] == [*labels]:
            return
        if sorted(map(str, given)) == sorted(labels):
            raise InputError(
                f"labels={given!r}: the head was trained with the order "
                f"{', '.join(labels)}; give them in this order, leave them "
                "out, or set new_head=True"
            )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "labels": self.labels and list(self.labels),
        }

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels, or their numbers if they have no names."""
        return self.labels or tuple(map(str, range(self.num_labels)))

    @property
    def _ids_of_names(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self.labels or ())}

    def _class_weight(
        self, x, y, sample_weight, class_weight
    ) -> tuple[Any, Any, dict[Any, float] | None]:
        """Replaces names of labels by ids, as Keras ignores other keys."""
        of_labels = self._weights_by_id(class_weight)
        # Keras would take the first of the labels of a text as its class.
        if self.multi_label and self.num_labels > 1:
            raise InputError(
                "class_weight does not support multi-label models; give "
                "sample_weight, or weight labels in the loss"
            )
        return x, sample_weight, of_labels

    def _weights_by_id(
        self, class_weight: Mapping[Any, float]
    ) -> dict[int, float]:
        # A single logit is that of class 1, and 0 is the other class.
        numbers = range(max(2, self.num_labels))
        ids = self._ids_of_names | {i: i for i in numbers}
        for name in class_weight:
            if name not in ids:
                raise InputError(
                    f"class_weight has {shown(name)}, which is neither one of "
                    f"labels={self.labels} nor an integer below {len(numbers)}"
                )
        return {ids[name]: x for name, x in class_weight.items()}

    def _label_ids(self, y):
        """Returns labels as an array, of integers for names."""
        check_not_table(y, "y")
        names = y.tolist() if hasattr(y, "tolist") else y
        if names is not y and not isinstance(y, np.ndarray):
            y = names  # A column of pandas, of any type.
        if tf.is_tensor(y) and y.dtype == tf.string:
            if tf.is_symbolic_tensor(y):
                return self._label_ids_in_graph(y)
            names = y.numpy().tolist()
        is_list = isinstance(names, (list, tuple))
        if not is_list or not any(isinstance(x, (str, bytes)) for x in names):
            if is_list and not (hasattr(y, "dtype") and y.dtype != object):
                y = np.asarray(names)
            if self.num_labels > 1:
                check_class_ids(y, self.num_labels, self.loss)
            return y
        ids = self._ids_of_names
        names = [x.decode() if isinstance(x, bytes) else x for x in names]
        for number, name in enumerate(names):
            if name not in ids:
                raise InputError(
                    f"label {shown(name)} of text {number} is not one of "
                    f"labels={self.labels}; give labels= to the model, or "
                    "integers"
                )
        return np.array([ids[name] for name in names], np.int32)

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


def _check_labels(
    model: str, num_labels: int, labels: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Returns the labels as a tuple, or raises an `InputError`."""
    check_positive(model, "num_labels", num_labels)
    if labels is None:
        return None
    names = isinstance(labels, (list, tuple)) and all(
        isinstance(label, str) for label in labels
    )
    if not names or len(labels) != num_labels:
        raise InputError(
            f"{model}: labels={labels!r} must be num_labels={num_labels} "
            "strings"
        )
    if len({*labels}) < len(labels):
        raise InputError(f"{model}: labels={labels!r} must be distinct")
    return tuple(labels)
