"""Base classes of models with a dense head on the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.layers.core import dense
from albert_tf.layers.dropout import Dropout
from albert_tf.models.base import AlbertModel, check_dropout, check_positive
from albert_tf.models.encoder import AlbertEncoder


class HeadModel(AlbertModel):
    """Encoder, dropout and a dense layer, whose name is `HEAD`.

    Its inputs are `WIDTH` times as wide as the hidden states.

    Args:
      config: the architecture.
      num_outputs: number of outputs of the dense layer.
      pooler: whether the encoder has a pooler.
      dropout: dropout rate before the dense layer.
      packed: see `AlbertEncoder`.
      rematerialize: see `AlbertEncoder`.
      output_attentions: see `AlbertEncoder`. The output is then a dict of
        `logits` and `attentions`.
      **kwargs: `name`, `dtype` and `trainable` of `keras.Model`.

    Raises:
      InputError: if `dropout` is not valid.
    """

    HEAD: ClassVar[str]
    WIDTH: ClassVar[int] = 1

    def __init__(
        self,
        config: AlbertConfig,
        num_outputs: int,
        *,
        pooler: bool = True,
        dropout: float = 0.1,
        packed: bool = False,
        rematerialize: bool = False,
        output_attentions: bool = False,
        **kwargs,
    ):
        dropout = check_dropout(type(self).__name__, dropout)
        super().__init__(config, **kwargs)
        self.head_dropout = dropout
        self.encoder = AlbertEncoder(
            config,
            packed,
            pooler=pooler,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
            dtype=self.dtype_policy,
        )
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        head = dense(config, num_outputs, self.HEAD, "float32")
        inputs = (None, self.WIDTH * config.hidden_size)
        head.build(inputs)
        self.dropout.build(inputs)
        setattr(self, self.HEAD, head)
        self.built = True

    @classmethod
    def _arguments_from(cls, checkpoint, new_head, given):
        if new_head or cls.HEAD not in checkpoint.components:
            return {}
        return {"dropout": checkpoint.head.dropout}

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            "dropout": self.dropout.rate,
            "packed": self.encoder.packed,
            "rematerialize": self.encoder.rematerialize,
            "output_attentions": self.encoder.output_attentions,
        }

    def pooled(self, inputs, training):
        """Returns the pooled output, and the attentions or None."""
        if not self.encoder.output_attentions:
            return self.encoder.pooled_output(inputs, training=training), None
        outputs = self.encoder(inputs, training=training)
        return outputs["pooled_output"], outputs["attentions"]


class LabelHeadModel(HeadModel):
    """A `HeadModel` whose outputs are logits of labels.

    Subclasses define their default name, `NAME`, and whether the encoder has a
    pooler, `POOLER`.
    """

    HEAD_ARGUMENTS: ClassVar = {"num_labels": "..."}
    NAME: ClassVar[str]
    POOLER: ClassVar[bool]

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
            pooler=self.POOLER,
            dropout=dropout,
            packed=packed,
            rematerialize=rematerialize,
            output_attentions=output_attentions,
            **{"name": self.NAME, **kwargs},
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
                decided["labels"] = head.labels
        return decided

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of `from_config`."""
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "labels": self.labels and list(self.labels),
        }


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
    return tuple(labels)
