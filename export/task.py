"""Export of a fine-tuned model and its tokenizer as a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.exporting.manifest import UNKNOWN, Origin, describe_weights
from albert_tf.exporting.saved_model import (
    Endpoint,
    Export,
    model_endpoint,
    write_saved_model,
)
from albert_tf.finetuning.serving import Inputs, ServingGraph


def export_task(
    graph: ServingGraph,
    path: str | os.PathLike[str],
    *,
    task: Mapping[str, Any],
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes a model from strings to predictions, for servers and `HubLayer`.

    `tf.saved_model.load(path)`, after `import tensorflow_text`, returns an
    object with the following interface:

    - The object itself maps the inputs of the graph to a dict of its outputs.
      It takes a dict of inputs by name, a list of them in order, or a single
      input alone. `training=True` applies dropout.
    - `variables`, `trainable_variables`, `regularization_losses`.
    - `.call_training`: the object with dropout, for
      `TFSMLayer(path, "__call__", call_training_endpoint="call_training")`.
    - `.signatures["serving_default"]` maps the named inputs to the named
      outputs; there is a signature for each further form of the inputs.
    - `.labels()`, if the task has labels, returns strings `[labels]`.
    - `.sp_model_file.asset_path` (`.vocab_file.asset_path` for a WordPiece
      tokenizer) and `.do_lower_case`.

    `export.json` in the folder has versions, config, weights and the task.

    Args:
      graph: graph of the task.
      path: folder to create. It appears only when it is complete.
      task: the task for `export.json`, as JSON values.
      overwrite: whether to replace a finished export at `path`.
      origin: origin of the weights, for the model card.

    Raises:
      InputError: if `path` exists or cannot be created.
    """

    def build() -> Export:
        body = tf.function(graph.call, autograph=False)
        root = _root(graph, body)
        signatures = {
            name: _signature(body, inputs)
            for name, inputs in graph.forms.items()
        }
        manifest = {
            "kind": "task",
            "task": dict(task),
            "signatures": {
                name: {
                    "inputs": list(inputs),
                    "outputs": sorted(signatures[name].structured_outputs),
                }
                for name, inputs in graph.forms.items()
            },
            "config": graph.model.config.to_dict(),
            "packed": graph.model.packed,
            **describe_weights(graph.model.weights()),
        }
        return Export(root, signatures, manifest)

    write_saved_model(
        build,
        path,
        tokenizer=graph.preprocessor.tokenizer,
        overwrite=overwrite,
        origin=origin,
    )


def _root(graph: ServingGraph, body: Callable) -> Endpoint:
    default = graph.forms["serving_default"]
    names, specs = list(default), list(default.values())

    def by_name(inputs):
        if isinstance(inputs, Mapping):
            return inputs
        if isinstance(inputs, (list, tuple)):
            return dict(zip(names, inputs, strict=True))
        return {names[0]: inputs}

    root = model_endpoint(
        lambda inputs, training: body(by_name(inputs), training),
        [
            specs if len(specs) > 1 else specs[0],
            *graph.forms.values(),
        ],
        graph.model.variables,
    )
    if graph.labels is not None:
        # Not a variable, as accelerators do not support strings.
        root.labels = tf.function(
            lambda: tf.constant(graph.labels), input_signature=[]
        )
    # Holds the lookup tables and the vocabulary of the functions.
    root._preprocessor = graph.preprocessor
    return root


def _signature(
    body: Callable, inputs: Inputs
) -> tf.types.experimental.ConcreteFunction:
    @tf.function(autograph=False)
    def serve(**inputs):
        return body(inputs, False)

    return serve.get_concrete_function(**inputs)
