"""Serving graphs, from strings to predictions, and what they share."""

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
    """A function from strings to predictions, as `export_task` writes it.

    Task types make them, see `TaskType.serving_graph`.

    Attributes:
      model: the fine-tuned model, with its variables.
      preprocessor: of its tokenizer; holds the tables that `call` needs.
      inputs: name -> strings `[batch, ...]`, in the order in which a list of
        them is given.
      call: a function of the inputs by name and a Python bool `training`,
        which `tf.function` can trace without autograph. Returns outputs by
        name: dense tensors `[batch, ...]`, so that servers can give each
        caller its own. It has to take empty strings and an empty batch.
      max_seq_length: tokens that `call` gives a row at most.
      labels: names of what the outputs are of, in their order; None for none.
      other_inputs: other forms of the inputs: name of the signature that takes
        them -> inputs.

    Raises:
      InputError: the model does not take sequences of `max_seq_length`.
    """

    model: ModelGraph
    preprocessor: GraphPreprocessor
    inputs: Inputs
    call: Callable[[Tensors, bool], Tensors]
    max_seq_length: int
    labels: tuple[str, ...] | None = None
    other_inputs: Mapping[str, Inputs] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        longest = self.model.config.max_position_embeddings
        if self.max_seq_length > longest:
            raise InputError(
                f"max_seq_length={self.max_seq_length} must be at most "
                f"{longest}, the model's max_position_embeddings"
            )


def split(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the words of texts as `str.split()` does.

    Args:
      texts: strings `[batch]`, in UTF-8.

    Returns:
      Ragged strings `[batch, (words)]`.
    """
    # Without separators, TensorFlow splits at ASCII's blanks and no others.
    blanks = tf.strings.regex_replace(texts, f"{_whitespace()}+", " ")
    return tf.strings.split(blanks)


def strip(texts: tf.Tensor) -> tf.Tensor:
    """Returns strings of any shape as `str.strip()` does."""
    space = _whitespace()
    return tf.strings.regex_replace(texts, f"^{space}+|{space}+$", "")


@functools.cache
def spaces() -> tuple[int, ...]:
    """Returns the code points of what Python holds for whitespace."""
    return tuple(c for c in range(sys.maxunicode + 1) if chr(c).isspace())


def _whitespace() -> str:
    """Returns the same as a class of RE2."""
    return "[" + "".join(rf"\x{{{code:x}}}" for code in spaces()) + "]"
