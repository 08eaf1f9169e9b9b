import functools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.evaluation import Evaluator


@pytest.fixture(scope="module")
def examples(toy):
    """29 examples: batches of 8 end with 5, which 2 replicas split 2 and 3."""
    (batch,) = toy.batches(batch_size=29).take(1)
    return tf.data.Dataset.from_tensor_slices(batch)


@pytest.fixture(scope="module")
def evaluators(toy):
    """Returns `evaluator(replicas, batch_size)` of a toy with dropout."""

    @functools.cache
    def evaluator(replicas, batch_size=8):
        name = {1: "one_device", 2: "mirrored"}[replicas]
        strategy = toy.make_strategy(name)
        with strategy.scope():
            model = toy.Toy()
        return Evaluator(strategy, model, toy.ToyLoss(rate=0.5), batch_size)

    return evaluator


@pytest.mark.parametrize(("replicas", "batch_size"), [(1, 8), (2, 8), (2, 28)])
def test_result_is_that_of_one_batch(
    toy, evaluators, examples, replicas, batch_size
):
    # The last batches have 5 examples or one; without padding, one replica
    # would have none of the single one.
    result = evaluators(replicas, batch_size)(examples.batch(batch_size))
    # Computed at once, without strategy, batches or sums.
    (batch,) = examples.batch(29)
    loss_fn = toy.ToyLoss(rate=0.5)
    loss, metrics = loss_fn(toy.Toy(), batch, loss_fn.normalizers(batch), None)
    means = {name: float(m[0] / m[1]) for name, m in metrics.items()}
    del means["tokens"]
    assert result == pytest.approx({"loss": float(loss)} | means, rel=1e-5)


def test_the_model_is_traced_once(toy, examples, one_device):
    class Counting(toy.ToyLoss):
        traces = 0

        def __call__(self, *arguments):
            Counting.traces += 1
            return super().__call__(*arguments)

    with one_device.scope():
        model = toy.Toy()
    evaluator = Evaluator(one_device, model, Counting(), 8)
    first = evaluator(examples.batch(8))
    model.dense.bias.assign(np.ones(toy.VOCABULARY))
    model.dense.kernel.assign(model.dense.kernel * 2.0)
    second = evaluator(examples.batch(8))
    assert Counting.traces == 1
    assert second["loss"] != first["loss"]


def test_max_steps_limits_the_batches(evaluators, examples):
    limited = evaluators(1)(examples.batch(8), max_steps=2)
    assert limited == evaluators(1)(examples.take(16).batch(8))


def test_metric_without_weight_is_nan(evaluators, examples):
    unweighted = examples.map(
        lambda x: x | {"weights": tf.zeros_like(x["weights"])}
    )
    result = evaluators(1)(unweighted.batch(8))
    assert np.isnan(result["token_loss"])
    assert np.isfinite(result["parity_loss"])


def test_empty_dataset_is_an_error(evaluators, examples):
    with pytest.raises(InputError, match="holds no batch"):
        evaluators(1)(examples.take(0).batch(8))


def test_all_batches_have_one_static_size(toy, examples, two_replicas):
    shapes = set()

    class Watching(toy.ToyLoss):
        def __call__(self, model, batch, normalizers, seed):
            shapes.add(tuple(batch["ids"].shape))
            return super().__call__(model, batch, normalizers, seed)

    with two_replicas.scope():
        model = toy.Toy()
    Evaluator(two_replicas, model, Watching(), 7)(examples.batch(7))
    assert shapes == {(4, toy.LENGTH)}
