"""Export of a fine-tuned model and its tokenizer as a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.export.manifest import (
    UNKNOWN,
    Origin,
    describe_tokenizer,
    describe_weights,
)
from albert_tf.export.model_card import describe_export
from albert_tf.export.reference import TEXTS, Case, strings
from albert_tf.export.saved_model import (
    Endpoint,
    add_lower_case,
    model_endpoint,
    write_saved_model,
)
from albert_tf.finetuning.predictor import Predictor
from albert_tf.finetuning.serving import Inputs, ServingGraph
from albert_tf.folders import new_folder


def export_task(
    graph: ServingGraph,
    path: str | os.PathLike[str],
    *,
    task: Mapping[str, Any],
    overwrite: bool = False,
    origin: Origin = UNKNOWN,
) -> None:
    """Writes strings -> answers, for servers, `hub.KerasLayer`, `HubLayer`.

    `tf.saved_model.load(path)` returns, after `import tensorflow_text`:

    - The object itself: a dict of the graph's inputs by name, a list of them in
      their order, or the only one -> the dict of outputs. `training=True`
      switches dropout on.
    - `variables`, `trainable_variables`, `regularization_losses`.
    - `.call_training`: the object with dropout on, for
      `TFSMLayer(path, "__call__", call_training_endpoint="call_training")`.
    - `.signatures["serving_default"]`: the named inputs -> the named outputs;
      a further signature for each other form of the inputs.
    - `.labels()`, where the task has labels: strings `[labels]`.
    - `.sp_model_file.asset_path` (of a `vocab.txt`, `.vocab_file.asset_path`)
      and `.do_lower_case`.

    `export.json` in the folder has versions, config, weights and the task.

    Args:
      graph: of the task; see `TaskType.serving_graph`.
      path: the folder to make. It appears only when it is complete.
      task: the task for `export.json`, as JSON values.
      overwrite: replace a SavedModel at `path`.
      origin: of the weights, for the model card.

    Raises:
      InputError: `path` is taken or cannot be made.
    """
    tokenizer = graph.preprocessor.tokenizer
    with new_folder(path, overwrite) as folder:

        def make():
            body = tf.function(graph.call, autograph=False)
            root = _root(graph, body)
            add_lower_case(root, tokenizer)
            return root, {
                name: _signature(body, inputs)
                for name, inputs in _forms(graph).items()
            }

        signatures = write_saved_model(make, folder, tokenizer)
        describe_export(
            folder,
            {
                "kind": "task",
                "task": dict(task),
                "signatures": {
                    name: {
                        "inputs": list(inputs),
                        "outputs": sorted(signatures[name].structured_outputs),
                    }
                    for name, inputs in _forms(graph).items()
                },
                "config": graph.model.config.to_dict(),
                "packed": graph.model.packed,
                **describe_weights(graph.model.weights()),
                "tokenizer": describe_tokenizer(tokenizer),
            },
            origin,
        )


def _forms(graph: ServingGraph) -> dict[str, Inputs]:
    """Returns signature -> its inputs.

    They are named: saving traces functions of unnamed inputs again.
    """
    forms = {"serving_default": graph.inputs, **graph.other_inputs}
    return {
        form: {
            name: tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in inputs.items()
        }
        for form, inputs in forms.items()
    }


def _root(graph: ServingGraph, body: Callable) -> Endpoint:
    names = list(graph.inputs)

    def by_name(inputs):
        if isinstance(inputs, Mapping):
            return inputs
        if isinstance(inputs, (list, tuple)):
            return dict(zip(names, inputs, strict=True))
        return {names[0]: inputs}

    forms = _forms(graph)
    specs = list(forms["serving_default"].values())
    root = model_endpoint(
        lambda inputs, training: body(by_name(inputs), training),
        [
            specs if len(specs) > 1 else specs[0],
            *forms.values(),
        ],
        graph.model.variables,
    )
    if graph.labels is not None:
        # Not a variable, as accelerators have no strings.
        root.labels = tf.function(
            lambda: tf.constant(graph.labels), input_signature=[]
        )
    # The functions need the tables and the vocabulary in it.
    root._preprocessor = graph.preprocessor
    return root


def _signature(
    body: Callable, inputs: Inputs
) -> tf.types.experimental.ConcreteFunction:
    @tf.function(autograph=False)
    def serve(**inputs):
        return body(inputs, False)

    return serve.get_concrete_function(**inputs)


def task_cases(
    model: str | os.PathLike[str], settings: Mapping[str, Any]
) -> Iterator[Case]:
    """Yields what an export of a fine-tuned model has to return.

    Args:
      model: the fine-tuned model.
      settings: those of the task in the export, which may be others.
    """
    predictor = Predictor(model, settings)
    examples = predictor.task_type.sample_examples(TEXTS)
    inputs, outputs = predictor.task_type.serving_arrays(
        examples, predictor(examples).predictions
    )
    yield Case("text", "serving_default", strings(**inputs), outputs)
