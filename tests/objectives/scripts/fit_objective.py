"""Fits an objective under the backend named by KERAS_BACKEND.

Usage: fit_objective.py OBJECTIVE CONFIG.json IN.npz OUT.npz: IN has a batch
and, as weight/PATH, the weights of the model; OUT gets the history of three
epochs, and the scores of an evaluation.
"""

import json
import pathlib
import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.registry import make_objective


def main(name, config, data, output):
    arrays = dict(np.load(data))
    objective = make_objective(name, mask_id=4)
    model = objective.make_model(
        AlbertConfig.from_dict(json.loads(pathlib.Path(config).read_text()))
    )
    for variable in model.weights:
        variable.assign(arrays.pop(f"weight/{variable.path}"))
    training = PretrainingModel(model, objective)
    training.compile(keras.optimizers.Adam(0.003))
    history = training.fit(
        arrays, batch_size=6, epochs=3, shuffle=False, verbose=0
    ).history
    scores = training.evaluate(
        arrays, batch_size=6, verbose=0, return_dict=True
    )
    scores = {f"eval/{name}": value for name, value in scores.items()}
    np.savez(output, **history, **scores)


if __name__ == "__main__":
    main(*sys.argv[1:])
