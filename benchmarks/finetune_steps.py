"""Losses, updates and predictions of `finetune_jax.py`."""

import functools

import jax
import jax.numpy as jnp
import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.models.encoder import AlbertEncoder

BETA_1, BETA_2, EPSILON, WEIGHT_DECAY = 0.9, 0.999, 1e-6, 0.01
EXCLUDED = ("layer_norm", "bias")  # from decay, as in the original
KEPT = 0.9  # of the inputs of heads, the rest is dropped
TEMPERATURE = 0.05  # of the cosines of pairs
MASKED = -1e9


class Encoder:
    """The encoder as a function of its weights."""

    def __init__(self, path: str):
        self._model = AlbertEncoder.from_pretrained(path)
        self._variables = self._model.trainable_variables
        self.config = self._model.config
        if self.config.hidden_dropout_prob or (
            self.config.attention_probs_dropout_prob
        ):
            raise InputError(f"{path} has dropout, which is not supported")
        self.weights = [jnp.array(v) for v in self._variables]
        self.paths = [v.path for v in self._variables]
        self.size = len(self.weights)

    def __call__(self, weights, texts, training=False):
        """Returns the outputs for padded texts, and their mask."""
        places = jnp.arange(texts["ids"].shape[-1])[None]
        mask = places < texts["lengths"][:, None]
        types = (places >= texts["segments"][:, None]) & mask
        inputs = {
            "input_word_ids": texts["ids"].astype(jnp.int32),
            "input_mask": mask.astype(jnp.int32),
            "input_type_ids": types.astype(jnp.int32),
        }
        mapping = list(zip(self._variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return self._model(inputs, training=training), mask

    def outputs(self, kind, weights, texts, training=False, key=None):
        """Returns logits, or vectors of "pairs" and "cosine".

        Args:
          kind: see `Task`.
          weights: those of the encoder, then kernel and bias of the head.
          texts: the texts, padded.
          training: whether the encoder is trained.
          key: key of the head's dropout; None for none.
        """
        head = weights[self.size :]
        found, mask = self(weights[: self.size], texts, training)
        if kind in ("classes", "number"):
            pooled = found["pooled_output"].astype(jnp.float32)
            if key is not None:
                kept = jax.random.bernoulli(key, KEPT, pooled.shape)
                pooled = jnp.where(kept, pooled / KEPT, 0)
            return pooled @ head[0] + head[1]
        tokens = found["sequence_output"].astype(jnp.float32)
        mask = mask[..., None]
        if kind == "span":
            return jnp.where(mask, tokens @ head[0] + head[1], MASKED)
        return (tokens * mask).sum(1) / mask.sum(1)

    def loss(self, weights, kind, batch, key):
        """Returns the loss of a batch, and the share of right answers."""
        names = ("ids", "lengths", "segments")
        texts = {name: batch[name] for name in names}
        if kind in ("pairs", "cosine"):
            texts = {n: x.reshape(-1, *x.shape[2:]) for n, x in texts.items()}
            vectors = self.outputs(kind, weights, texts, training=True)
            vectors = vectors.reshape(-1, 2, vectors.shape[-1])
            vectors /= jnp.linalg.norm(vectors, axis=-1, keepdims=True)
            first, second = vectors[:, 0], vectors[:, 1]
            if kind == "cosine":
                error = jnp.sum(first * second, axis=-1) - batch["target"]
                return jnp.mean(error**2), jnp.zeros(())
            return ranking_loss(first @ second.T / TEMPERATURE, batch["hashes"])
        logits = self.outputs(kind, weights, texts, training=True, key=key)
        target = batch["target"]
        if kind == "number":
            return jnp.mean((logits[:, 0] - target) ** 2), jnp.zeros(())
        if kind == "classes":
            logs = jax.nn.log_softmax(logits)
            loss = -jnp.mean(jnp.take_along_axis(logs, target[:, None], 1))
            return loss, (logits.argmax(1) == target).mean()
        logs = jax.nn.log_softmax(logits, axis=1)
        rows, (start, end) = jnp.arange(len(logits)), target.T
        loss = -(logs[rows, start, 0] + logs[rows, end, 1]).mean() / 2
        right = (logits.argmax(1) == target).all(1) & (start > 0)
        return loss, right.sum() / jnp.maximum((start > 0).sum(), 1)


def ranking_loss(logits, hashes):
    """Returns the loss of finding each text's partner, and how many are found.

    Args:
      logits: similarities of the first texts to the second ones.
      hashes: equal for equal texts, `[pairs, 2]`. What equals either text of
        a pair, or is the partner of the same text, is no wrong answer.
    """
    first, second = hashes[:, :1], hashes[:, 1:]
    equal = (second.T == first) | (second.T == second) | (first.T == first)
    others = ~jnp.eye(len(logits), dtype=bool)
    logits = jnp.where(equal & others, MASKED, logits)
    loss = -jnp.diagonal(jax.nn.log_softmax(logits)).mean()
    return loss, (logits.argmax(1) == jnp.arange(len(logits))).mean()


@functools.cache
def make_program(encoder, kind):
    """Returns `run(state, data, rows, rates, seeds)`: several updates."""
    decays = [
        0.0 if any(x in path for x in EXCLUDED) else WEIGHT_DECAY
        for path in encoder.paths
    ] + [WEIGHT_DECAY, 0.0]

    def update(state, data, rows, rate, seed):
        batch = {name: column[rows] for name, column in data.items()}
        key = jax.random.fold_in(jax.random.key(seed), state["step"])
        (loss, right), gradients = jax.value_and_grad(
            encoder.loss, has_aux=True
        )(state["weights"], kind, batch, key)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients))
        scale = jnp.minimum(1.0, 1.0 / norm)
        step = state["step"] + 1
        count = step.astype(jnp.float32)
        unbias_m, unbias_v = 1 - BETA_1**count, 1 - BETA_2**count
        new = {name: [] for name in ("weights", "m", "v", "average")}
        old = [state[name] for name in new]
        for g, decay, *slots in zip(gradients, decays, *old, strict=True):
            g, (w, m, v, average) = g * scale, slots
            m = BETA_1 * m + (1 - BETA_1) * g
            v = BETA_2 * v + (1 - BETA_2) * g * g
            change = m / unbias_m / (jnp.sqrt(v / unbias_v) + EPSILON)
            w = w - rate * (change + decay * w)
            average = average + (1 - state["ema"]) * (w - average)
            for name, value in zip(new, (w, m, v, average), strict=True):
                new[name].append(value)
        new |= {"step": step, "ema": state["ema"]}
        return new, jnp.stack([loss, right])

    @functools.partial(jax.jit, donate_argnums=0)
    def run(state, data, rows, rates, seeds):
        def updates(state, inputs):
            rows, rate = inputs
            if len(seeds) > 1:
                return jax.vmap(update, (0, None, 0, None, 0))(
                    state, data, rows, rate, seeds
                )
            only = jax.tree.map(lambda x: x[0], state)
            found = update(only, data, rows[0], rate, seeds[0])
            return jax.tree.map(lambda x: x[None], found)

        return jax.lax.scan(updates, state, (rows, rates))

    return run


@functools.cache
def make_predictor(encoder, kind):
    """Returns `predict(weights, batches)`, for one seed."""
    dtype = jnp.float16 if kind == "span" else jnp.float32

    @jax.jit
    def predict(weights, batches):
        def one(_, texts):
            outputs = encoder.outputs(kind, weights, texts)
            return None, outputs.astype(dtype)

        return jax.lax.scan(one, None, batches)[1]

    return predict


def new_state(weights, ema):
    """Returns the state of updates from weights `[seeds, ...]`."""
    seeds = len(weights[0])
    return {
        "weights": weights,
        "m": [jnp.zeros_like(x) for x in weights],
        "v": [jnp.zeros_like(x) for x in weights],
        "average": [jnp.copy(x) for x in weights],
        "step": jnp.zeros(seeds, jnp.int32),
        "ema": jnp.full(seeds, ema, jnp.float32),
    }


def learning_rates(highest, steps, count):
    """Returns the rates of `count` steps, 0 after `steps`."""
    warmup, step = int(0.1 * steps), np.arange(count)
    rising, falling = step / max(warmup, 1), np.maximum(1 - step / steps, 0)
    rates = np.where(step < warmup, rising, falling) * highest
    return rates.astype(np.float32)
