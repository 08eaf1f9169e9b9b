"""Fits the task models under the backend named by KERAS_BACKEND.

Usage: fit_task_models.py IN.npz OUT.npz: IN holds the config as JSON, the
inputs and a pretrainer's weights by path; OUT gets each model's losses of two
steps of `fit` and its weights after them.
"""

import json
import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.finetuning.multiple_choice.model import AlbertMultipleChoice
from albert_tf.finetuning.question_answering.model import (
    AlbertQuestionAnswering,
)
from albert_tf.finetuning.text_classification.model import AlbertClassifier
from albert_tf.finetuning.token_classification.model import (
    AlbertTokenClassifier,
)

data = np.load(sys.argv[1])
config = AlbertConfig.from_dict(json.loads(str(data["config"])))
# Each layer makes compilation longer; backend_outputs.py trains two.
config = config.replace(num_hidden_layers=1)
names = ("input_word_ids", "input_mask", "input_type_ids")
batch = {k: data[f"in/{k}"] for k in names}
choices = {k: np.stack([v, v[::-1]], axis=1) for k, v in batch.items()}
starts, ends = np.array([0, 4, 1], "int32"), np.array([0, 6, 2], "int32")
joint = {**batch, "p_mask": 1 - batch["input_mask"], "start_positions": starts}
labels_of_tokens = np.arange(batch["input_mask"].size) % 3
labels_of_tokens = labels_of_tokens.reshape(batch["input_mask"].shape)

# Of logits, and of log-probabilities, which are logits too.
of_classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
of_binary = keras.losses.BinaryCrossentropy(from_logits=True)
results = {}
# Without dropout, whose masks are each backend's own.
for name, model, inputs, labels, loss, weights in (
    (
        "classifier",
        AlbertClassifier(config, 3, dropout=0.0),
        batch,
        np.array([0, 2, 1]),
        of_classes,
        None,
    ),
    (
        "token_classifier",
        AlbertTokenClassifier(config, 3, dropout=0.0),
        batch,
        labels_of_tokens,
        of_classes,
        batch["input_mask"].astype("float32"),
    ),
    (
        "multiple_choice",
        AlbertMultipleChoice(config, dropout=0.0),
        choices,
        np.array([0, 1, 1]),
        of_classes,
        None,
    ),
    (
        "span_v1",
        AlbertQuestionAnswering(config, "v1"),
        batch,
        {"start_logits": starts, "end_logits": ends},
        {"start_logits": of_classes, "end_logits": of_classes},
        None,
    ),
    (
        "span_joint",
        AlbertQuestionAnswering(config, "joint", dropout=0.0),
        joint,
        {
            "start_log_probs": starts,
            "end_log_probs": ends,
            "is_impossible_logits": np.float32([1, 0, 0]),
        },
        {
            "start_log_probs": of_classes,
            "end_log_probs": of_classes,
            "is_impossible_logits": of_binary,
        },
        None,
    ),
):
    rng = np.random.default_rng(2)
    for variable in model.trainable_variables:
        value = data.get(f"weight/{variable.path}")
        if value is None:
            value = rng.normal(0, 0.2, variable.shape)
        variable.assign(value)
    model.compile(keras.optimizers.SGD(0.01), loss=loss)
    # The second loss depends on all gradients of the first step.
    history = model.fit(
        inputs,
        labels,
        sample_weight=weights,
        epochs=2,
        batch_size=len(starts),
        verbose=0,
    )
    results[f"{name}/loss"] = history.history["loss"]
    for variable in model.trainable_variables:
        path = f"{name}/after/{variable.path}"
        results[path] = keras.ops.convert_to_numpy(variable)

np.savez(sys.argv[2], backend=keras.backend.backend(), **results)
