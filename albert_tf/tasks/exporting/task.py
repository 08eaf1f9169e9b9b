"""A fine-tuned model with its tokenizer and decoding, as one SavedModel."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from albert_tf.export.task import export_task
from albert_tf.export.task_graph import TaskGraph
from albert_tf.export.task_graphs.choices import choices_graph
from albert_tf.export.task_graphs.texts import classes_graph, number_graph
from albert_tf.export.task_graphs.words import words_graph
from albert_tf.tasks.exporting.config import ExportConfig
from albert_tf.tasks.exporting.origins import origin_of
from albert_tf.tasks.exporting.spans import spans_of
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.model_folder import FinetunedModel, load_model


def export_finetuned_task(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: ExportConfig,
) -> None:
    """Writes a fine-tuned model; its predictions are those of `Predictor`.

    Raises:
      InputError: there is no fine-tuned model; see `export_checkpoint`.
    """
    packed = config.packed is not False
    loaded = load_model(source, {"max_seq_length": config.seq_length})
    description = loaded.kind.description
    export_task(
        _GRAPHS[description.kind](loaded, description, packed),
        output,
        task=json.loads(description.to_json()),
        overwrite=config.overwrite,
        origin=origin_of(source, config),
    )


def _classes(
    loaded: FinetunedModel, description: TaskDescription, packed: bool
) -> TaskGraph:
    return classes_graph(
        loaded.model,
        loaded.kind.tokenizer,
        labels=description.labels,
        pair=description.source["pair"] is not None,
        max_seq_length=loaded.kind.max_seq_length,
        packed=packed,
    )


def _number(
    loaded: FinetunedModel, description: TaskDescription, packed: bool
) -> TaskGraph:
    return number_graph(
        loaded.model,
        loaded.kind.tokenizer,
        pair=description.source["pair"] is not None,
        max_seq_length=loaded.kind.max_seq_length,
        packed=packed,
    )


def _choices(
    loaded: FinetunedModel, description: TaskDescription, packed: bool
) -> TaskGraph:
    return choices_graph(
        loaded.model,
        loaded.kind.tokenizer,
        max_seq_length=loaded.kind.max_seq_length,
        max_qa_length=description.settings["max_qa_length"],
        packed=packed,
    )


def _words(
    loaded: FinetunedModel, description: TaskDescription, packed: bool
) -> TaskGraph:
    return words_graph(
        loaded.model,
        loaded.kind.tokenizer,
        labels=description.labels,
        max_seq_length=loaded.kind.max_seq_length,
        packed=packed,
    )


_GRAPHS: Mapping[str, Callable[..., TaskGraph]] = {
    "classes": _classes,
    "number": _number,
    "choices": _choices,
    "spans": spans_of,
    "words": _words,
}
