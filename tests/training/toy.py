"""A small model and task.

The task has what makes the loop's work hard: a table that is only looked up
(gradients in slices), LayerNorm and biases (excluded), two losses with
denominators that differ from slice to slice, and dropout by the given seed.
"""

import keras
import tensorflow as tf

from albert_tf.training import optimizers, schedules
from albert_tf.training.config import TrainingConfig
from albert_tf.training.distribution import make_strategy
from albert_tf.training.logging import read_metrics
from albert_tf.training.loss import WEIGHTS
from albert_tf.training.trainer import Trainer

VOCABULARY, WIDTH, LENGTH, BATCH = 40, 8, 6, 12


class Toy(keras.Model):
    def __init__(self, seed=1, **kwargs):
        super().__init__(name="toy", **kwargs)
        init = keras.initializers.RandomNormal(0.3, seed=seed)
        self.table = keras.layers.Embedding(
            VOCABULARY, WIDTH, init, name="table"
        )
        self.norm = keras.layers.LayerNormalization(name="layer_norm")
        self.dense = keras.layers.Dense(
            VOCABULARY, kernel_initializer=init, name="dense"
        )
        self.unused = keras.layers.Dense(
            2, kernel_initializer=init, name="unused"
        )
        self.table.build()
        self.norm.build((None, None, WIDTH))
        self.dense.build((None, None, WIDTH))
        self.unused.build((None, WIDTH))
        self.built = True

    def call(self, ids, seed=None, rate=0.0):
        hidden = self.norm(self.table(ids))
        if seed is not None and rate:
            keep = tf.random.stateless_uniform(tf.shape(hidden), seed) >= rate
            hidden = tf.where(keep, hidden / (1.0 - rate), 0.0)
        return tf.cast(self.dense(hidden), tf.float32)


class ToyLoss:
    """Predicts each token's successor id, and the first token's parity."""

    def __init__(self, rate=0.0):
        self.rate = rate

    def normalizers(self, batch):
        examples = self._example_weights(batch)
        return {
            "weights": tf.reduce_sum(batch["weights"] * examples[:, None]),
            "examples": tf.reduce_sum(examples),
        }

    def __call__(self, model, batch, normalizers, seed):
        logits = model(batch["ids"], seed=seed, rate=self.rate)
        examples = self._example_weights(batch)
        weights = batch["weights"] * examples[:, None]
        token_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            (batch["ids"] + 1) % VOCABULARY, logits
        )
        parity_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["ids"][:, 0] % 2, logits[:, 0, :2]
        )
        token_sum = tf.reduce_sum(token_loss * weights)
        parity_sum = tf.reduce_sum(examples * parity_loss)
        loss = (
            token_sum / normalizers["weights"]
            + parity_sum / normalizers["examples"]
        )
        weight_sum = tf.reduce_sum(weights)
        return loss, {
            "token_loss": tf.stack([token_sum, weight_sum]),
            "parity_loss": tf.stack([parity_sum, tf.reduce_sum(examples)]),
            "tokens": tf.stack([weight_sum, 0.0]),
        }

    @staticmethod
    def _example_weights(batch):
        return batch.get(WEIGHTS, tf.ones(tf.shape(batch["ids"])[:1]))


class OneWeight(keras.Model):
    """The smallest model, for runs whose numbers do not matter."""

    def __init__(self, shape=(3,)):
        super().__init__(name="one_weight")
        self.weight = self.add_weight(
            shape=shape, initializer="ones", name="weight"
        )
        self.built = True


class NoisyLoss:
    """A loss that depends on the batch and on the seed of the step.

    Args:
      half: add a term whose gradient overflows in float16 for a large batch.
    """

    def __init__(self, half=False):
        self.half = half

    def normalizers(self, batch):
        return {"examples": tf.cast(tf.shape(batch["x"])[0], tf.float32)}

    def __call__(self, model, batch, normalizers, seed):
        noise = tf.random.stateless_uniform([3], seed)
        error = model.weight * noise - batch["x"][:, tf.newaxis]
        loss = tf.reduce_sum(error**2) / normalizers["examples"]
        if self.half:
            big = tf.reduce_max(tf.abs(batch["x"]))
            half = tf.cast(model.weight, tf.float16) * tf.cast(1.0, tf.float16)
            loss += big * tf.reduce_sum(tf.cast(half, tf.float32))
        return loss, {}


class SeedLoss:
    """Records the seeds of all slices in the weight they are assigned to."""

    def normalizers(self, batch):
        return {"one": tf.constant(1.0)}

    def __call__(self, model, batch, normalizers, seed):
        noise = tf.random.stateless_uniform([], seed)
        loss = 0.0 * tf.reduce_sum(model.weight) + noise
        return loss, {"square": tf.stack([noise**2, 1.0])}


class StepLoss:
    """The loss is the value of the batch, so the data decide it."""

    def normalizers(self, batch):
        return {}

    def __call__(self, model, batch, normalizers, seed):
        return tf.reduce_sum(batch["x"] * model.weight), {}


def ones(batch_size=4):
    return tf.data.Dataset.from_tensors({"x": tf.ones([batch_size])}).repeat()


def values(numbers):
    numbers = tf.constant(numbers, tf.float32)
    return tf.data.Dataset.from_tensor_slices({"x": numbers}).batch(
        1, drop_remainder=True
    )


def fit(
    strategy,
    loss,
    data,
    *,
    model=None,
    optimizer=None,
    schedule=None,
    run_dir=None,
    evaluate=None,
    flops_per_example=None,
    callbacks=(),
    **settings,
):
    """Trains a model, or one weight; returns model, optimizer and result."""
    with strategy.scope():
        model = model or OneWeight()
    optimizer = optimizer or optimizers.AdamW()
    result = Trainer(
        TrainingConfig(**settings),
        strategy,
        model,
        loss,
        optimizer,
        schedule or schedules.PolynomialDecay(0.1, 100),
        run_dir=run_dir,
    ).fit(
        data,
        evaluate=evaluate,
        flops_per_example=flops_per_example,
        callbacks=callbacks,
    )
    return model, optimizer, result


def train_one_weight(strategy, loss, data=None, **settings):
    """Trains one weight on batches of ones, or others.

    Returns:
      The model and the result.
    """
    settings = {"num_train_steps": 8, "log_steps": 1} | settings
    dataset = ones() if data is None else data
    read = data if callable(data) else lambda step: dataset
    model, _, result = fit(strategy, loss, read, **settings)
    return model, result


def train_scored(run_dir, scores, **settings):
    """Trains one weight for 24 steps, evaluated every 4.

    Args:
      scores: step -> accuracy; None ends the run as a kill would.

    Returns:
      The result, the weight and the steps that were evaluated now.
    """
    settings = {
        "num_train_steps": 24,
        "eval_steps": 4,
        "save_checkpoints_steps": 6,
        "log_steps": 2,
        "best_metric": "accuracy",
        **settings,
    }
    evaluated = []

    def evaluate():
        step = read_metrics(run_dir)[-1]["step"]
        if scores[step] is None:
            raise KeyboardInterrupt
        evaluated.append(step)
        return {"accuracy": scores[step]}

    def data(first):
        numbers = tf.data.Dataset.range(first, 100)
        return numbers.map(lambda n: {"x": tf.sin([tf.cast(n, tf.float32)])})

    model, _, result = fit(
        make_strategy("one_device"),
        NoisyLoss(),
        data,
        schedule=schedules.PolynomialDecay(0.01, 24),
        run_dir=run_dir,
        evaluate=evaluate,
        **settings,
    )
    return result, model.weight.numpy(), evaluated


def batches(start_step=0, batch_size=BATCH, seed=0):
    """Endless batches; each a function of the seed and its step alone."""

    def batch(step):
        key = tf.stack([tf.cast(step, tf.int32), seed])
        shape = [batch_size, LENGTH]
        return {
            "ids": tf.random.stateless_uniform(
                shape, key, maxval=VOCABULARY, dtype=tf.int32
            ),
            "weights": tf.cast(
                tf.random.stateless_uniform(shape, key + 1) < 0.7, tf.float32
            ),
        }

    return tf.data.Dataset.counter(start_step).map(batch)


def run(strategy, *, model=None, rate=0.0, optimizer=None, **settings):
    """Trains a toy; returns model, optimizer and the result."""
    with strategy.scope():
        model = model or Toy()
    settings = {
        "num_train_steps": 20,
        "steps_per_loop": 7,
        "seed": 3,
        "schedule": schedules.PolynomialDecay(0.02, 40, warmup_steps=5),
        **settings,
    }
    return fit(
        strategy,
        ToyLoss(rate),
        batches,
        model=model,
        optimizer=optimizer or optimizers.Lamb(),
        **settings,
    )


def weights(model):
    return {v.path: v.numpy() for v in model.weights}
