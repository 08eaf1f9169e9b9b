import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training.evaluation import Evaluator, evaluate


@pytest.fixture(scope="module")
def examples(toy):
    """29 examples: batches of 8 end with 5, which 2 replicas split 2 and 3."""
    (batch,) = toy.batches(batch_size=29).take(1)
    return tf.data.Dataset.from_tensor_slices(batch)


def expected(toy, examples, task):
    """Computed at once, without strategy, batches or sums."""
    (batch,) = examples.batch(29)
    loss, metrics = task.loss(toy.Toy(), batch, task.normalizers(batch), None)
    means = {name: float(m[0] / m[1]) for name, m in metrics.items()}
    del means["tokens"]
    return {"loss": float(loss)} | means


@pytest.mark.parametrize("batch_size", [8, 14, 29])
@pytest.mark.parametrize("replicas", [1, 2])
def test_result_is_that_of_one_batch(
    toy, examples, one_device, two_replicas, replicas, batch_size
):
    strategy = one_device if replicas == 1 else two_replicas
    with strategy.scope():
        model = toy.Toy()
    task = toy.ToyTask(rate=0.5)
    result = evaluate(strategy, model, task, examples.batch(batch_size))
    assert result == pytest.approx(expected(toy, examples, task), rel=1e-5)


def test_a_replica_may_have_no_example(toy, examples, two_replicas):
    with two_replicas.scope():
        model = toy.Toy()
    task = toy.ToyTask()
    result = evaluate(two_replicas, model, task, examples.batch(28))
    assert result == pytest.approx(expected(toy, examples, task), rel=1e-5)


def test_the_model_is_traced_once(toy, examples, one_device):
    class Counting(toy.ToyTask):
        traces = 0

        def loss(self, *arguments):
            Counting.traces += 1
            return super().loss(*arguments)

    with one_device.scope():
        model = toy.Toy()
    evaluator = Evaluator(one_device, model, Counting())
    first = evaluator(examples.batch(8))
    model.dense.bias.assign(np.ones(toy.VOCABULARY))
    model.dense.kernel.assign(model.dense.kernel * 2.0)
    second = evaluator(examples.batch(8))
    assert Counting.traces == 1
    assert second["loss"] != first["loss"]


def test_max_steps_limits_the_batches(toy, examples, one_device):
    with one_device.scope():
        model = toy.Toy()
    task = toy.ToyTask()
    limited = evaluate(one_device, model, task, examples.batch(8), max_steps=2)
    assert limited == evaluate(
        one_device, model, task, examples.take(16).batch(8)
    )


def test_metric_of_no_weight_is_not_a_number(toy, examples, one_device):
    with one_device.scope():
        model = toy.Toy()
    unweighted = examples.map(
        lambda x: x | {"weights": tf.zeros_like(x["weights"])}
    )
    result = evaluate(one_device, model, toy.ToyTask(), unweighted.batch(8))
    assert np.isnan(result["token_loss"])
    assert np.isfinite(result["parity_loss"])


def test_empty_dataset_is_refused(toy, examples, one_device):
    with one_device.scope():
        model = toy.Toy()
    with pytest.raises(InputError, match="holds no batch"):
        evaluate(one_device, model, toy.ToyTask(), examples.take(0).batch(8))
