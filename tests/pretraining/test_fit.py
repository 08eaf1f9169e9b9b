"""Keras's `compile` and `fit` on records, beside the loop."""

import importlib.util
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.records import pretraining_dataset
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.training.config import TrainingConfig
from albert_tf.training.logging import read_metrics
from albert_tf.training.optimizers import AdamW
from albert_tf.training.schedules import PolynomialDecay
from albert_tf.training.trainer import Trainer

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "fit_losses.py"
STEPS, RATE = 20, 2e-3
# Large, so that variables that are decayed by one of both only are found.
DECAY = 5.0
# Keras adds it before the correction, so it must not matter.
EPSILON = 1e-12


@pytest.fixture(scope="module")
def config(tiny_model):
    return tiny_model.replace(
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


@pytest.fixture(scope="module")
def loop(records, tmp_path_factory, config):
    """The loop's metrics of each step, and the start, for the script."""
    folder = tmp_path_factory.mktemp("fit")
    keras.utils.set_random_seed(1)
    model = AlbertPretrainer(config)
    weights = {f"weight/{v.path}": np.asarray(v) for v in model.weights}
    np.savez(
        folder / "start.npz",
        config=json.dumps(config.to_dict()),
        records=str(records),
        rate=RATE,
        steps=STEPS,
        decay=DECAY,
        epsilon=EPSILON,
        **weights,
    )
    Trainer(
        TrainingConfig(num_train_steps=STEPS, log_steps=1, eval_steps=0),
        tf.distribute.get_strategy(),
        model,
        MaskedLanguageModeling(),
        AdamW(weight_decay=DECAY, epsilon=EPSILON, bias_correction=True),
        PolynomialDecay(RATE, 10**6, power=1e-6),
        run_dir=folder / "run",
    ).fit(
        lambda step: pretraining_dataset(
            str(records), global_batch_size=16, seed=3, start_step=step
        )
    )
    lines = [line["values"] for line in read_metrics(folder / "run")]
    return folder / "start.npz", {
        name: np.array([values[name] for values in lines])
        for name in MaskedLanguageModeling().metric_names
    }


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("tensorflow", marks=pytest.mark.long),
        pytest.param("jax", marks=pytest.mark.backend),
        pytest.param("torch", marks=pytest.mark.backend),
    ],
)
def test_fit_has_the_losses_of_the_trainer(backend, loop, run_script):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed: run `make test-backends`")
    start, expected = loop
    output = start.with_name(f"{backend}.npz")
    run_script(SCRIPT, backend, start, output)
    found = dict(np.load(output))
    assert str(found.pop("backend")) == backend
    assert set(found) == set(expected)
    for name, values in found.items():
        np.testing.assert_allclose(
            values, expected[name], rtol=1e-5, err_msg=name
        )


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(records, precision, config):
    objective = MaskedLanguageModeling()
    model = objective.create_model(config, dtype=precision)
    training = PretrainingModel(model, objective)
    training.compile(keras.optimizers.AdamW(2e-3), run_eagerly=True)
    before = [np.asarray(v) for v in model.trainable_variables]
    data = pretraining_dataset(str(records), global_batch_size=16)
    history = training.fit(data, steps_per_epoch=2, verbose=0).history
    assert np.isfinite(history["loss"][0])
    scaled = type(training.optimizer).__name__ == "LossScaleOptimizer"
    assert scaled == (precision == "mixed_float16")
    if not scaled:  # The first scales of float16 may be too large.
        assert all(
            np.any(np.asarray(v) != b)
            for v, b in zip(model.trainable_variables, before, strict=True)
        )
