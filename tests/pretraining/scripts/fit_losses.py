"""Fits a pretrainer on records under the backend named by KERAS_BACKEND.

Usage: fit_losses.py IN.npz OUT.npz: IN holds the config as JSON, the folder of
records, the settings of the optimizer, the number of steps and the weights by
path; OUT gets what `fit` says of every step.
"""

import json
import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.data.records import pretraining_dataset
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.registry import make_objective


def main(start, output):
    data = np.load(start)
    model = AlbertPretrainer(
        AlbertConfig.from_dict(json.loads(str(data["config"])))
    )
    for variable in model.weights:
        variable.assign(data[f"weight/{variable.path}"])
    dataset = pretraining_dataset(
        str(data["records"]), global_batch_size=16, seed=3
    )
    optimizer = keras.optimizers.AdamW(
        float(data["rate"]),
        weight_decay=float(data["decay"]),
        epsilon=float(data["epsilon"]),
        global_clipnorm=1.0,
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    training = PretrainingModel(model, make_objective("mlm"))
    training.compile(optimizer)
    # An epoch is a step, so that each has a loss of its own in the history.
    history = training.fit(
        dataset, epochs=int(data["steps"]), steps_per_epoch=1, verbose=0
    ).history
    np.savez(output, backend=keras.backend.backend(), **history)


if __name__ == "__main__":
    main(*sys.argv[1:])
