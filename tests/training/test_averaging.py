import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training.averaging import WeightAverages
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.checkpoints import load_model_variables
from albert_tf.training.schedules import WarmupStableDecay

DECAY = 0.6


def numpy_average(weights):
    """The average of weights: the initial ones, and those after each update."""
    average, *weights = weights
    for k, weight in enumerate(weights):
        decay = min(DECAY, (1 + k) / (10 + k))
        average = decay * average + (1 - decay) * weight
    return average


def test_the_averages_are_those_of_numpy(two_replicas):
    with two_replicas.scope():
        weight = tf.Variable([1.0, -2.0], name="weight")
        averages = WeightAverages([weight], DECAY)

    @tf.function
    def update(decay, condition):
        two_replicas.run(averages.update, args=(decay, condition))

    history = [weight.numpy()]
    for step in range(20):
        with two_replicas.scope():
            weight.assign(tf.constant([np.sin(step), 3.0 * step], tf.float32))
        # A step that is skipped, in between, changes nothing.
        update(averages.decay_at(step), tf.constant(False))
        update(averages.decay_at(step), tf.constant(True))
        history.append(weight.numpy())
    average = averages.variables["weight"]
    for value in two_replicas.experimental_local_results(average):
        np.testing.assert_allclose(value, numpy_average(history), rtol=1e-5)


def test_weights_are_restored_bit_for_bit(two_replicas):
    with two_replicas.scope():
        weight = tf.Variable([0.1, 0.2], name="weight")
        averages = WeightAverages([weight], DECAY)
        weight.assign([3.3, 4.4])

    def values(variable):
        local = two_replicas.experimental_local_results(variable)
        return [x.numpy().tolist() for x in local]

    held, averaged = values(weight), values(averages.variables["weight"])
    assert held != averaged

    def evaluate():
        assert values(weight) == averaged
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        averages.applied(evaluate)()
    assert values(weight) == held
    assert values(averages.variables["weight"]) == averaged


def run(toy, strategy, run_dir, *, steps=12, decay_steps=4, **settings):
    """Trains a toy; returns model, last checkpoint and weights evaluated."""
    with strategy.scope():
        model = toy.Toy()

    def evaluate():
        evaluated.append(toy.weights(model))
        return {}

    evaluated = []
    toy.run(
        strategy,
        model=model,
        schedule=WarmupStableDecay(0.02, steps, 3, decay_steps),
        run_dir=run_dir,
        evaluate=evaluate,
        **{
            "num_train_steps": steps,
            "ema_decay": DECAY,
            "save_checkpoints_steps": 4,
            "eval_steps": 6,
            **settings,
        },
    )
    values = read_checkpoint(run_dir / "checkpoints" / f"step-{steps:08d}")
    return model, values, evaluated


@pytest.fixture(scope="module")
def undisturbed(toy, tmp_path_factory):
    """A run with a checkpoint at each step."""
    folder = tmp_path_factory.mktemp("run")
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    settings = {"save_checkpoints_steps": 1, "keep_checkpoint_max": 20}
    return folder, *run(toy, strategy, folder, **settings)


def test_a_run_averages_all_its_steps(toy, undisturbed):
    folder, model, values, _ = undisturbed
    history = [{f"model/{n}": w for n, w in toy.weights(toy.Toy()).items()}]
    for step in range(1, 13):
        path = folder / "checkpoints" / f"step-{step:08d}"
        history.append(read_checkpoint(path))
    for name, weight in toy.weights(model).items():
        np.testing.assert_array_equal(values[f"model/{name}"], weight)
        expected = numpy_average([x[f"model/{name}"] for x in history])
        np.testing.assert_allclose(
            values[f"average/{name}"], expected, atol=1e-6
        )


def test_evaluations_and_readers_get_the_averages(toy, undisturbed):
    folder, model, values, evaluated = undisturbed
    fresh = toy.Toy(seed=2)
    load_model_variables(fresh, folder)
    assert len(evaluated) == 2
    changed = 0
    for name, weight in toy.weights(model).items():
        average = values[f"average/{name}"]
        np.testing.assert_array_equal(evaluated[-1][name], average)
        np.testing.assert_array_equal(toy.weights(fresh)[name], average)
        changed += (weight != average).any()
    assert changed > 2


def test_extended_and_decayed_run_ends_bit_equal(
    toy, undisturbed, one_device, tmp_path
):
    run(toy, one_device, tmp_path, steps=8, decay_steps=0)
    *_, values, _ = run(toy, one_device, tmp_path)
    assert values.keys() == undisturbed[2].keys()
    for name, value in values.items():
        np.testing.assert_array_equal(value, undisturbed[2][name], name)


def test_averages_change_no_weight(toy, undisturbed, one_device, tmp_path):
    _, values, _ = run(toy, one_device, tmp_path, ema_decay=0.0)
    assert not any(name.startswith("average/") for name in values)
    for name, value in values.items():
        np.testing.assert_array_equal(value, undisturbed[2][name])
