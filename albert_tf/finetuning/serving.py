"""Programs from strings to inputs and predictions, eager and in graphs."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.config import check_positions
from albert_tf.models.base import AlbertModel
from albert_tf.models.model_graph import ModelGraph, Tensors
from albert_tf.text.packing import pack_to_longest
from albert_tf.text.preprocessor import EagerPreprocessor, GraphPreprocessor

Preprocessor = GraphPreprocessor | EagerPreprocessor
Inputs = Mapping[str, tf.TensorSpec]


class ServingGraph:
    """A function from strings to predictions that `export_task` saves.

    Attributes:
      model: the model, with its variables.
      preprocessor: the preprocessor, with the lookup tables of the tokenizer.
      forms: specs of the inputs by name, for each signature, see
        `TaskType.serving_forms`.
      labels: names of the labels, in the order of the outputs; None if the task
        has none.

    Raises:
      InputError: if `max_seq_length` exceeds the model's maximum.
    """

    def __init__(
        self, task_type: Any, model: AlbertModel, *, packed: bool = True
    ):
        length = task_type.max_seq_length
        check_positions(model.config, length, "max_seq_length")
        self._serve = task_type.serve
        self.model = ModelGraph(model, packed)
        self.preprocessor = GraphPreprocessor(task_type.tokenizer, length)
        self.forms: dict[str, Inputs] = {
            form: {
                # Saving would trace functions of unnamed inputs again.
                name: tf.TensorSpec([None] * rank, tf.string, name)
                for name, rank in ranks.items()
            }
            for form, ranks in task_type.serving_forms.items()
        }
        self.labels = task_type.labels or None

    def call(self, inputs: Tensors, training: bool) -> Tensors:
        """Returns the outputs of `TaskType.serve`; without AutoGraph."""
        return self._serve(
            self.preprocessor, lambda batch: self.model(batch, training), inputs
        )


def text_sequences(
    preprocessor: Preprocessor,
    texts: Sequence[Any],
    max_seq_length: int,
    *,
    multiple: int = 1,
) -> Tensors:
    """Makes the sequences of texts or pairs, eagerly or in a graph.

    Texts that are too long are truncated like in the original
    (run_classifier.py): the last piece of the longer text is removed, or of the
    second if they have the same length, until the pair fits. If the second text
    has no pieces, there is no second `[SEP]`.

    Args:
      texts: one or two tensors of strings `[batch]`.
      max_seq_length: maximum length of a sequence; at least 5 for pairs.
      multiple: see `pack_to_longest`.
    """
    return pack_to_longest(
        preprocessor.ops,
        preprocessor.tokenizer,
        [preprocessor.segment(text) for text in texts],
        max_seq_length,
        multiple=multiple,
        drop_empty=True,
    )


def split(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits UTF-8 texts at white space, like `str.split()`.

    Returns ragged strings `[batch, (words)]`.
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
