"""Runs the models under the backend named by KERAS_BACKEND.

Usage: backend_outputs.py IN.npz OUT.npz: IN holds the config as JSON, the
inputs and the pretrainer's weights by path; OUT gets the outputs of all models
and the loss of fitting the pretrainer.
"""

import contextlib
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
from albert_tf.models.pretrainer import AlbertPretrainer

data = np.load(sys.argv[1])
config = AlbertConfig.from_dict(json.loads(str(data["config"])))
inputs = {k[3:]: data[k] for k in data.files if k.startswith("in/")}

# predict_on_batch compiles where the backend compiles: JAX traces under jit.
model = AlbertPretrainer(config)
for variable in model.trainable_variables:
    variable.assign(data[f"weight/{variable.path}"])
outputs = model.predict_on_batch(inputs)
names = ("input_word_ids", "input_mask", "input_type_ids")
batch = {k: inputs[k] for k in names}
encoded = model.encoder.predict_on_batch(batch)
# Two sequences in a row, of which the second is empty in the last one.
starts = np.array([[0, 6], [0, 4], [0, 0]], "int32")
second = (np.arange(14) >= starts[:, 1:]) & (starts[:, 1:] > 0)
packed = model.predict_on_batch(
    {
        **inputs,
        "sequence_ids": inputs["input_mask"] * (1 + second.astype("int32")),
        "sequence_starts": starts,
    }
)

# Each with the pretrainer's encoder and a head of its own.
choices = {k: np.stack([v, v[::-1]], axis=1) for k, v in batch.items()}
# As many candidates as are listed, at least: others tie, in any order.
p_mask = np.zeros_like(batch["input_mask"])
p_mask[:, 3::3] = 1
candidates = {**batch, "p_mask": p_mask}
starts = np.array([0, 4, 1], "int32")
fine_tuned = {}
for name, task_model, task_inputs in (
    ("classifier", AlbertClassifier(config, 3), batch),
    ("attentive", AlbertClassifier(config, 3, output_attentions=True), batch),
    ("token_classifier", AlbertTokenClassifier(config, 3), batch),
    ("multiple_choice", AlbertMultipleChoice(config), choices),
    ("span_v1", AlbertQuestionAnswering(config, "v1"), batch),
    ("span_joint", AlbertQuestionAnswering(config, "joint"), candidates),
    (
        "span_joint_training",
        AlbertQuestionAnswering(config, "joint"),
        {**candidates, "start_positions": starts},
    ),
):
    rng = np.random.default_rng(2)
    for variable in task_model.trainable_variables:
        value = data.get(f"weight/{variable.path}")
        if value is None:
            value = rng.normal(0, 0.5, variable.shape)
        variable.assign(value)
    found = task_model.predict_on_batch(task_inputs)
    found = found if isinstance(found, dict) else {"logits": found}
    for output, value in found.items():
        fine_tuned[f"{name}/{output}"] = value

model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss={
        "mlm_logits": keras.losses.SparseCategoricalCrossentropy(True),
        "sop_logits": keras.losses.SparseCategoricalCrossentropy(True),
        "pooled_output": None,
    },
)
rng = np.random.default_rng(1)
labels = {
    "mlm_logits": rng.integers(
        0, config.vocab_size, inputs["masked_lm_positions"].shape
    ),
    "sop_logits": rng.integers(0, 2, len(inputs["input_mask"])),
    "pooled_output": np.zeros(len(inputs["input_mask"])),
}
history = model.fit(inputs, labels, epochs=3, batch_size=16, verbose=0)

# No rows from the end: NaN where JAX cannot raise errors, errors elsewhere.
for name in ("input_word_ids", "input_type_ids", "masked_lm_positions"):
    wrong = {key: array.copy() for key, array in inputs.items()}
    wrong[name][0, 1] = -1
    found = None
    with contextlib.suppress(Exception):  # Each backend has its own.
        found = keras.ops.convert_to_numpy(model(wrong)["mlm_logits"][0])
    if keras.backend.backend() == "jax":
        assert np.isnan(found).any()
    else:
        assert found is None

np.savez(
    sys.argv[2],
    backend=keras.backend.backend(),
    loss=history.history["loss"],
    sequence_output=encoded["sequence_output"],
    last_but_one=encoded["encoder_outputs"][-2],
    **outputs,
    **{f"packed/{name}": value for name, value in packed.items()},
    **fine_tuned,
)
