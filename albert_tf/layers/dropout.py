"""Dropout whose masks can be made a function of an explicit seed."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Sequence

import keras

_SEEDS: contextvars.ContextVar[_SeedSequence | None] = contextvars.ContextVar(
    "albert_tf_dropout_seeds", default=None
)


class Dropout(keras.layers.Layer):
    """Inverted dropout, off unless `training` is true.

    `keras.layers.Dropout` draws from a counter variable, which yields the same
    mask on every replica of a MirroredStrategy and is lost on resume. Under
    `dropout_seeds(seed)` this layer draws from that seed instead; otherwise, as
    in `model.fit`, it behaves like Keras's.

    Args:
      rate: probability of a zero, in [0, 1).
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        # Only a layer that can drop something carries a generator's variable.
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    def call(self, inputs, training=False):
        """Returns `inputs` with zeros, of the same shape and dtype."""
        if not training or not self.rate:
            return inputs
        seeds = _SEEDS.get()
        seed = self.seed_generator if seeds is None else seeds.fork()
        return keras.random.dropout(inputs, self.rate, seed=seed)


@contextlib.contextmanager
def dropout_seeds(seed, first: int = 1):
    """Makes the dropout inside a function of `seed`.

    Args:
      seed: integer tensor `[2]` in the backend's random seed dtype, or None to
        change nothing. The n-th dropout applied inside the block, counted while
        tracing, gets its own seed made from `seed` and n.
      first: the n of the first one.
    """
    if seed is None:
        yield
        return
    token = _SEEDS.set(_SeedSequence(seed, first))
    try:
        yield
    finally:
        _SEEDS.reset(token)


def reserve_seeds(layers: Sequence[Dropout]):
    """Draws the seeds of a call that will run more than once.

    Under `dropout_seeds(*reserve_seeds(layers))` the layers, called in this
    order, drop the same each time; if a scope of `dropout_seeds` is open, what
    they would have dropped anyway.

    Returns:
      A seed and the number of its first use; `(None, 1)` if nothing is dropped.
    """
    dropping = [layer for layer in layers if layer.rate]
    if not dropping:
        return None, 1
    seeds = _SEEDS.get()
    if seeds is None:
        generator = dropping[0].seed_generator
        assert generator is not None  # It has one, as its rate is not 0.
        return generator.next(), 1
    return seeds.reserve(len(dropping))


class _SeedSequence:
    """Hands out seeds made from a base seed and a running number."""

    # Odd, so multiplying by it permutes the 32-bit integers (Knuth's
    # multiplicative hash): neighbouring numbers get distant seeds.
    _STRIDE = 2654435761

    def __init__(self, base, first):
        self._base = base
        self._next = first

    def fork(self) -> _FixedSeed:
        base, number = self.reserve(1)
        salt = (number * self._STRIDE) % 2**31
        offset = keras.ops.convert_to_tensor([0, salt], base.dtype)
        return _FixedSeed(keras.ops.bitwise_xor(base, offset))

    def reserve(self, count: int):
        """Returns the base and the first of `count` numbers now taken."""
        first = self._next
        self._next += count
        return self._base, first


class _FixedSeed(keras.random.SeedGenerator):
    """A seed tensor in the only form that `keras.random` accepts."""

    def __init__(self, seed):
        self._seed_tensor = seed  # No super().__init__: it makes a variable.
        self._initial_seed = seed  # Keras's PyTorch draws unseeded without.

    def next(self, ordered=True):
        """Returns the seed; it is used once."""
        return self._seed_tensor
