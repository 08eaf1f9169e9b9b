"""A small model and task; as a program, a run that tests interrupt.

The task has what makes the loop's work hard: a table that is only looked up
(gradients in slices), LayerNorm and biases (excluded), two losses with
denominators that differ from slice to slice, and dropout by the given seed.
"""

import argparse

import keras
import tensorflow as tf

from albert_tf.training import optimizers, schedules
from albert_tf.training.distribution import make_strategy
from albert_tf.training.evaluation import evaluate
from albert_tf.training.loop import train
from albert_tf.training.training_config import TrainingConfig

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


class ToyTask:
    """Predicts each token's successor id, and the first token's parity."""

    def __init__(self, rate=0.0):
        self.rate = rate

    def normalizers(self, batch):
        return {
            "weights": tf.reduce_sum(batch["weights"]),
            "examples": tf.cast(tf.shape(batch["ids"])[0], tf.float32),
        }

    def loss(self, model, batch, normalizers, seed):
        logits = model(batch["ids"], seed=seed, rate=self.rate)
        weights = batch["weights"]
        token_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            (batch["ids"] + 1) % VOCABULARY, logits
        )
        parity_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["ids"][:, 0] % 2, logits[:, 0, :2]
        )
        token_sum = tf.reduce_sum(token_loss * weights)
        parity_sum = tf.reduce_sum(parity_loss)
        loss = (
            token_sum / normalizers["weights"]
            + parity_sum / normalizers["examples"]
        )
        weight_sum = tf.reduce_sum(weights)
        examples = tf.cast(tf.shape(weights)[0], tf.float32)
        return loss, {
            "token_loss": tf.stack([token_sum, weight_sum]),
            "parity_loss": tf.stack([parity_sum, examples]),
            "tokens": tf.stack([weight_sum, 0.0]),
        }


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


def run(
    strategy,
    *,
    rate=0.0,
    optimizer=None,
    run_dir=None,
    decay_steps=40,
    **settings,
):
    """Trains a fresh toy; returns model, optimizer and the loop's result."""
    settings = {"total_steps": 20, "steps_per_loop": 7, "seed": 3} | settings
    config = TrainingConfig(**settings)
    with strategy.scope():
        model = Toy()
    optimizer = optimizer or optimizers.Lamb()
    schedule = schedules.PolynomialDecay(0.02, decay_steps, warmup_steps=5)
    result = train(
        config,
        strategy,
        model,
        ToyTask(rate),
        optimizer,
        schedule,
        batches,
        run_dir=run_dir,
    )
    return model, optimizer, result


def weights(model):
    return {v.path: v.numpy() for v in model.weights}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir")
    for name in (
        "total_steps save_steps log_steps steps_per_loop decay_steps"
    ).split():
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--ema_decay", type=float)
    flags = {n: v for n, v in vars(parser.parse_args()).items() if v}
    strategy = make_strategy()
    model, _, result = run(strategy, rate=0.3, **flags)
    print("steps", result.steps, "interrupted", result.interrupted)
    data = batches(batch_size=5, seed=1).take(3)
    print("loss", evaluate(strategy, model, ToyTask(), data)["loss"])


if __name__ == "__main__":
    main()
