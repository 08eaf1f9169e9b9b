"""A fine-tuned model with its tokenizer and decoding, as one SavedModel."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.export.task import export_task
from albert_tf.export.task_graph import TaskGraph
from albert_tf.export.task_graphs.choices import choices_graph
from albert_tf.export.task_graphs.spans import spans_graph
from albert_tf.export.task_graphs.texts import classes_graph, number_graph
from albert_tf.export.task_graphs.words import words_graph
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.origins import origin_of
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.model_folder import load_model

# Kind of task -> what makes its graph, and what of the task it has to be told.
_GRAPHS: Mapping[str, tuple[Callable[..., TaskGraph], tuple[str, ...]]] = {
    "classes": (classes_graph, ("labels", "pair", "max_seq_length")),
    "number": (number_graph, ("pair", "max_seq_length")),
    "choices": (choices_graph, ("max_seq_length", "max_qa_length")),
    "spans": (
        spans_graph,
        ("settings", "n_best", "max_answer_length", "null_threshold"),
    ),
    "words": (words_graph, ("labels", "max_seq_length")),
}


def export_finetuned_task(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: ExportConfig,
) -> None:
    """Writes a fine-tuned model; its predictions are those of `Predictor`.

    Raises:
      InputError: there is no fine-tuned model; see `export_checkpoint`.
    """
    loaded = load_model(source, {"max_seq_length": config.seq_length})
    description = loaded.kind.description
    make_graph, names = _GRAPHS[description.kind]
    told = _told(description)
    export_task(
        make_graph(
            loaded.model,
            loaded.kind.tokenizer,
            packed=config.packed is not False,
            **{name: told[name] for name in names},
        ),
        output,
        task=json.loads(description.to_json()),
        overwrite=config.overwrite,
        origin=origin_of(source, config),
    )


def _told(description: TaskDescription) -> dict[str, Any]:
    """Returns what graphs may be told of a task, by the names of arguments."""
    told = {
        **description.settings,
        "labels": description.labels,
        "pair": description.source.get("pair") is not None,
    }
    if description.kind == "spans":
        lengths = [field.name for field in dataclasses.fields(SpanSettings)]
        told["settings"] = SpanSettings(
            **{name: told[name] for name in lengths}
        )
    return told
