"""Keras's `compile` and `fit` on records, beside the loop."""

import functools
import importlib.util
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.records import pretraining_dataset
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.objectives.masked_language_modeling import MaskedLanguageModeling
from albert_tf.pretraining.loss import fit_examples
from albert_tf.training.config import TrainingConfig
from albert_tf.training.evaluation import Evaluator
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
# fit's name -> the loop's.
NAMES = {
    "loss": "loss",
    "mlm_logits_loss": "mlm_loss",
    "sop_logits_loss": "sop_loss",
    "mlm_logits_accuracy": "mlm_accuracy",
    "sop_logits_accuracy": "sop_accuracy",
}


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
        name: np.array([values[ours] for values in lines])
        for name, ours in NAMES.items()
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
    assert set(found) == set(NAMES)
    for name, values in found.items():
        np.testing.assert_allclose(
            values, expected[name], rtol=1e-5, err_msg=name
        )


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


def compiled(model, eager=False):
    loss = cross_entropy()
    model.compile(
        keras.optimizers.AdamW(
            2e-3, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0
        ),
        loss={"mlm_logits": loss, "sop_logits": loss},
        weighted_metrics={
            "mlm_logits": ["accuracy"],
            "sop_logits": ["accuracy"],
        },
        run_eagerly=eager,
    )
    return model


@pytest.mark.slow
def test_usual_keras_workflow(records, tmp_path, config):
    data = pretraining_dataset(str(records), global_batch_size=16)
    heldout = pretraining_dataset(
        str(records), global_batch_size=64, training=False, split="heldout"
    )
    model = compiled(AlbertPretrainer(config))
    history = model.fit(
        data.map(fit_examples),
        steps_per_epoch=20,
        epochs=2,
        validation_data=heldout.map(fit_examples),
        callbacks=[keras.callbacks.ModelCheckpoint(tmp_path / "best.keras")],
        verbose=0,
    ).history
    assert history["loss"][1] < history["loss"][0]
    back = keras.models.load_model(tmp_path / "best.keras")
    scores = back.evaluate(
        heldout.map(fit_examples), verbose=0, return_dict=True
    )
    assert scores["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
    # Weighted by weights, as in the loop's evaluation; Keras's losses are
    # means over batches instead.
    evaluator = Evaluator(
        tf.distribute.get_strategy(), back, MaskedLanguageModeling(), 64
    )
    expected = evaluator(heldout)
    for head in ("mlm", "sop"):
        assert scores[f"{head}_logits_accuracy"] == pytest.approx(
            expected[f"{head}_accuracy"], rel=1e-5
        )
    # It goes on: 40 updates are behind it.
    back.fit(data.map(fit_examples), steps_per_epoch=1, verbose=0)
    assert int(back.optimizer.iterations) == 41


def test_without_sentence_order(records, config):
    data = pretraining_dataset(str(records), global_batch_size=16).map(
        functools.partial(fit_examples, sentence_order=False)
    )
    for sop_head in (True, False):
        model = AlbertPretrainer(config, sop_head=sop_head)
        loss = {"mlm_logits": cross_entropy()}
        model.compile("sgd", loss=loss, run_eagerly=True)
        history = model.fit(data, steps_per_epoch=1, verbose=0).history
        # Of a new model: about ln(600).
        assert history["loss"][0] == pytest.approx(np.log(600), rel=0.15)


@pytest.mark.parametrize(
    "precision",
    [pytest.param("mixed_bfloat16", marks=pytest.mark.slow), "mixed_float16"],
)
def test_mixed_precision(records, precision, config):
    data = pretraining_dataset(str(records), global_batch_size=16)
    model = compiled(AlbertPretrainer(config, dtype=precision), eager=True)
    before = [np.asarray(v) for v in model.trainable_variables]
    history = model.fit(data.map(fit_examples), steps_per_epoch=2, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    scaled = type(model.optimizer).__name__ == "LossScaleOptimizer"
    assert scaled == (precision == "mixed_float16")
    if not scaled:  # The first scales of float16 may be too large.
        assert all(
            np.any(np.asarray(v) != b)
            for v, b in zip(model.trainable_variables, before, strict=True)
        )
