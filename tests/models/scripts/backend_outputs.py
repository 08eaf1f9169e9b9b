"""Runs the pretrainer under the backend named by KERAS_BACKEND.

Usage: backend_outputs.py IN.npz OUT.npz: IN holds the config as JSON, the
inputs and the weights by path; OUT gets the outputs and the loss after fit.
"""

import json
import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
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
encoded = model.encoder.predict_on_batch({k: inputs[k] for k in names})

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

np.savez(
    sys.argv[2],
    backend=keras.backend.backend(),
    loss=history.history["loss"],
    sequence_output=encoded["sequence_output"],
    last_but_one=encoded["encoder_outputs"][-2],
    **outputs,
)
