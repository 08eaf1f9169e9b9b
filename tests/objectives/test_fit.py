"""`fit` of objectives, on all backends and beside the training loop."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.objectives.fit import PretrainingModel
from albert_tf.objectives.registry import make_objective
from albert_tf.training.distribution import make_strategy
from albert_tf.training.evaluation import Evaluator

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "fit_objective.py"


@pytest.fixture(params=["mlm", "rtd"])
def objective(request):
    return make_objective(request.param, mask_id=4)


def test_losses_fall_and_scores_are_those_of_the_loop(objective, batch, config):
    model = PretrainingModel(objective.create_model(config), objective)
    model.compile(keras.optimizers.Adam(0.003))
    history = model.fit(batch, batch_size=6, epochs=4, verbose=0).history
    assert set(history) == set(objective.metric_names)
    assert history["loss"][-1] < history["loss"][0]
    scores = model.evaluate(batch, batch_size=6, verbose=0, return_dict=True)
    evaluator = Evaluator(
        tf.distribute.get_strategy(), model.model, objective, 6
    )
    data = tf.data.Dataset.from_tensor_slices(batch).batch(6)
    for name, value in evaluator(data).items():
        # NaN in the loop where nothing was flagged, 0 in Keras's mean.
        assert scores[name] == pytest.approx(np.nan_to_num(value), rel=1e-5)


def test_the_loss_is_the_mean_over_replicas(objective, batch, config):
    """Keras adds up the gradients of the losses of replicas.

    A second strategy would mix up the collectives of both objectives.
    """
    strategy = make_strategy(devices=["CPU:0", "CPU:1"])
    config = config.replace(num_hidden_layers=1)
    with strategy.scope():
        model = PretrainingModel(objective.create_model(config), objective)
        # Without graphs, which take seconds to trace.
        model.compile(keras.optimizers.SGD(0.01), run_eagerly=True)

    def loss():
        return model.compute_loss(y_pred={"loss": tf.constant(3.0)})

    losses = strategy.experimental_local_results(strategy.run(loss))
    assert [float(x) for x in losses] == [1.5, 1.5]
    assert float(loss()) == 3.0
    history = model.fit(batch, batch_size=6, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_a_saved_model_goes_on(batch, config, round_trip):
    """With its objective and the state of its optimizer."""
    settings = {"discriminator_weight": 7.0, "generator_hidden_size": 12}
    objective = make_objective("rtd", settings, mask_id=4)
    config = config.replace(num_hidden_layers=1)
    model = PretrainingModel(objective.create_model(config), objective)
    model.compile("adam", run_eagerly=True)
    model.fit(batch, batch_size=6, verbose=0)
    again = round_trip(model)
    assert again.objective == objective
    assert again.model.objective == model.model.objective
    for found, expected in (
        (again.weights, model.weights),
        (again.optimizer.variables, model.optimizer.variables),
    ):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.backend
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends_detect_replaced_tokens(
    backend, batch, config, run_script, tmp_path
):
    """tests/pretraining/test_fit.py has masked language modeling."""
    objective = make_objective("rtd", mask_id=4)
    model = objective.create_model(config)
    weights = {f"weight/{v.path}": np.asarray(v) for v in model.weights}
    np.savez(tmp_path / "in.npz", **batch, **weights)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    files = tmp_path / "config.json", tmp_path / "in.npz", tmp_path / "out.npz"
    run_script(SCRIPT, backend, *files)
    training = PretrainingModel(model, objective)
    training.compile(keras.optimizers.Adam(0.003))
    ours = training.evaluate(batch, batch_size=6, verbose=0, return_dict=True)
    theirs = np.load(files[-1])
    # The discriminator depends on samples, which are others.
    for loss in (theirs["evaluated"], theirs["generator_loss"][0]):
        np.testing.assert_allclose(loss, ours["generator_loss"], rtol=1e-5)
    assert theirs["loss"][-1] < theirs["loss"][0]
