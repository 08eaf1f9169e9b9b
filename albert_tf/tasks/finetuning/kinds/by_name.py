"""The kind of a task, by its name."""

from __future__ import annotations

from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.tasks.finetuning.kinds.choices import Choices
from albert_tf.tasks.finetuning.kinds.spans import Spans
from albert_tf.tasks.finetuning.kinds.texts import TextClasses, TextNumber
from albert_tf.tasks.finetuning.kinds.words import Words
from albert_tf.text.base_tokenizer import Tokenizer

_KINDS: dict[str, type[TaskKind]] = {
    "classes": TextClasses,
    "number": TextNumber,
    "choices": Choices,
    "spans": Spans,
    "words": Words,
}


def make_kind(description: TaskDescription, tokenizer: Tokenizer) -> TaskKind:
    """Returns how the examples of a task become rows and predictions.

    Args:
      description: of the task.
      tokenizer: of the model.
    """
    return _KINDS[description.kind](description, tokenizer)
