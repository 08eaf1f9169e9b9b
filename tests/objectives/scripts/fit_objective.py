"""Trains detection of replaced tokens under the backend of KERAS_BACKEND.

Usage: fit_objective.py CONFIG.json IN.npz OUT.npz: IN has a batch and, as
weight/PATH, the weights of the model; OUT gets the history of three epochs, and
the generator's loss in an evaluation before them.
"""

import json
import pathlib
import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.registry import make_objective


def main(config, data, output):
    arrays = dict(np.load(data))
    objective = make_objective("rtd", mask_id=4)
    model = objective.create_model(
        AlbertConfig.from_dict(json.loads(pathlib.Path(config).read_text()))
    )
    for variable in model.weights:
        variable.assign(arrays.pop(f"weight/{variable.path}"))
    training = PretrainingModel(model, objective)
    training.compile(keras.optimizers.Adam(0.003))
    scores = training.evaluate(
        arrays, batch_size=6, verbose=0, return_dict=True
    )
    history = training.fit(
        arrays, batch_size=6, epochs=3, shuffle=False, verbose=0
    ).history
    np.savez(output, evaluated=scores["generator_loss"], **history)


if __name__ == "__main__":
    main(*sys.argv[1:])
