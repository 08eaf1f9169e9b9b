"""The graph of a fine-tuned model that answers questions about contexts."""

from __future__ import annotations

import dataclasses

from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.export.task_graph import TaskGraph
from albert_tf.export.task_graphs.spans import spans_graph
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.model_folder import FinetunedModel


def spans_of(
    loaded: FinetunedModel, description: TaskDescription, packed: bool
) -> TaskGraph:
    """Makes the graph that answers as `Predictor` does.

    Args:
      loaded: a model of spans.
      description: of its task, with the settings.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: see `spans_graph`.
    """
    settings = description.settings
    lengths = [field.name for field in dataclasses.fields(SpanSettings)]
    others = ("n_best", "max_answer_length", "null_threshold")
    return spans_graph(
        loaded.model,
        loaded.kind.tokenizer,
        settings=SpanSettings(**{name: settings[name] for name in lengths}),
        packed=packed,
        **{name: settings[name] for name in others},
    )
