"""Serving graphs from strings to predictions, and their string operations."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.preprocessor import GraphPreprocessor

Inputs = Mapping[str, tf.TensorSpec]

TEXTS = tf.TensorSpec([None], tf.string)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ServingGraph:
    """A function from strings to predictions that `export_task` saves.

    Created by `TaskType.serving_graph`.

    Attributes:
      model: the fine-tuned model, with its variables.
      preprocessor: the preprocessor, with the lookup tables of the tokenizer.
      inputs: specs of the string inputs `[batch, ...]` by name, in the order of
        positional arguments.
      call: function of the inputs by name and a Python bool `training`, which
        `tf.function` can trace without AutoGraph. Returns outputs by name,
        dense tensors `[batch, ...]`, so that servers can split batches. Must
        support empty strings and empty batches.
      max_seq_length: maximum sequence length of the model's inputs.
      labels: names of the labels, in the order of the outputs; None if the task
        has none.
      other_inputs: specs of alternative inputs, by name of their signature.

    Raises:
      InputError: if `max_seq_length` exceeds the model's maximum.
    """

    model: ModelGraph
    preprocessor: GraphPreprocessor
    inputs: Inputs
    call: Callable[[Tensors, bool], Tensors]
    max_seq_length: int
    labels: tuple[str, ...] | None = None
    other_inputs: Mapping[str, Inputs] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        max_positions = self.model.config.max_position_embeddings
        if self.max_seq_length > max_positions:
            raise InputError(
                f"max_seq_length={self.max_seq_length} must be at most "
                f"{max_positions}, the model's max_position_embeddings"
            )


def split(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts at white space, like `str.split()`.

    Args:
      texts: UTF-8 strings `[batch]`.

    Returns:
      Ragged strings `[batch, (words)]`.
    """
    # Without a separator, `tf.strings.split` splits at ASCII white space only.
    texts = tf.strings.regex_replace(texts, f"{_whitespace()}+", " ")
    return tf.strings.split(texts)


def strip(texts: tf.Tensor) -> tf.Tensor:
    """Strips white space from strings of any shape, like `str.strip()`."""
    space = _whitespace()
    return tf.strings.regex_replace(texts, f"^{space}+|{space}+$", "")


@functools.cache
def spaces() -> tuple[int, ...]:
    """Returns the code points that `str.isspace` accepts."""
    return tuple(c for c in range(sys.maxunicode + 1) if chr(c).isspace())


def _whitespace() -> str:
    """Returns `spaces` as an RE2 character class."""
    return "[" + "".join(rf"\x{{{code:x}}}" for code in spaces()) + "]"
