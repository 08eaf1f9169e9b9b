"""Fits a pretrainer on records under the backend named by KERAS_BACKEND.

Usage: fit_losses.py IN.npz OUT.npz: IN holds the config as JSON, the folder of
records, the learning rate, the number of steps and the weights by path; OUT
gets what `fit` says of every step.
"""

import json
import sys

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.pretraining.loss import fit_examples
from albert_tf.pretraining.records import pretraining_dataset


class WithoutCorrection(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that takes Adam's bias correction out: the original has none."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        updates = keras.ops.cast(step, "float32") + 1.0
        first = 1.0 - keras.ops.power(0.9, updates)
        second = 1.0 - keras.ops.power(0.999, updates)
        return self.rate * first / keras.ops.sqrt(second)


def main(start, output):
    data = np.load(start)
    model = AlbertPretrainer(
        AlbertConfig.from_dict(json.loads(str(data["config"])))
    )
    for variable in model.weights:
        variable.assign(data[f"weight/{variable.path}"])
    dataset = pretraining_dataset(
        str(data["records"]), global_batch_size=16, seed=3
    ).map(fit_examples)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    model.compile(
        keras.optimizers.Adam(
            WithoutCorrection(float(data["rate"])),
            epsilon=1e-6,
            global_clipnorm=1.0,
        ),
        loss={"mlm_logits": loss, "sop_logits": loss},
        weighted_metrics={
            "mlm_logits": ["accuracy"],
            "sop_logits": ["accuracy"],
        },
    )
    # An epoch is a step, so that each has a loss of its own in the history.
    history = model.fit(
        dataset, epochs=int(data["steps"]), steps_per_epoch=1, verbose=0
    ).history
    np.savez(output, backend=keras.backend.backend(), **history)


if __name__ == "__main__":
    main(*sys.argv[1:])
