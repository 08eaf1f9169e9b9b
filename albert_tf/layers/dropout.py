"""Dropout whose masks can be a function of an explicit seed."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Sequence

import keras

_SEEDS: contextvars.ContextVar[_SeedSequence | None] = contextvars.ContextVar(
    "albert_tf_dropout_seeds", default=None
)


class Dropout(keras.layers.Layer):
    """Dropout with explicit seeds.

    `keras.layers.Dropout` uses a counter variable, which yields the same mask
    on every replica of a MirroredStrategy and is lost on resume. Within
    `dropout_seeds(seed)`, this layer uses that seed instead. Otherwise, as in
    `model.fit`, it behaves like Keras's.

    Args:
      rate: fraction of the inputs to drop, in [0, 1).
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        # Without dropout, the layer has no generator variable.
        self.seed_generator = keras.random.SeedGenerator() if rate else None
        self.built = True

    def compute_output_shape(self, input_shape):
        """Returns the shape of the inputs."""
        return input_shape

    def call(self, inputs, training=False):
        """Applies dropout if `training` is true."""
        if not training or not self.rate:
            return inputs
        seeds = _SEEDS.get()
        seed = self.seed_generator if seeds is None else seeds.fork()
        return keras.random.dropout(inputs, self.rate, seed=seed)


def evaluation_seed():
    """Returns the seed of draws in evaluations, zeros `[2]`."""
    # JAX takes no other dtype for seeds.
    is_jax = keras.backend.backend() == "jax"
    return keras.ops.zeros((2,), "uint32" if is_jax else "int32")


@contextlib.contextmanager
def dropout_seeds(seed, first: int = 1):
    """Makes all dropout in this scope a function of `seed`.

    Args:
      seed: integer tensor `[2]` in the backend's random seed dtype, or None for
        no effect. The seed of the n-th dropout in the scope, counted while
        tracing, is derived from `seed` and n.
      first: n of the first dropout.
    """
    if seed is None:
        yield
        return
    token = _SEEDS.set(_SeedSequence(seed, first))
    try:
        yield
    finally:
        _SEEDS.reset(token)


def random_seed() -> keras.random.SeedGenerator:
    """Returns the next seed of the scope of `dropout_seeds`.

    For draws other than dropout. Their numbers follow from the order of the
    calls in the scope, as those of dropout do.

    Raises:
      RuntimeError: outside of such a scope.
    """
    seeds = _SEEDS.get()
    if seeds is None:
        raise RuntimeError(
            "random_seed() was called outside of dropout_seeds(seed)"
        )
    return seeds.fork()


def reserve_seeds(layers: Sequence[Dropout]):
    """Reserves the seeds of a call that will run more than once.

    Within `dropout_seeds(*reserve_seeds(layers))`, the layers, called in this
    order, use the same masks each time. In an outer scope of `dropout_seeds`,
    these are the masks that they would have used without reservation.

    Returns:
      The arguments of `dropout_seeds`; `(None, 1)` without dropout.
    """
    dropping = [layer for layer in layers if layer.rate]
    if not dropping:
        return None, 1
    seeds = _SEEDS.get()
    if seeds is None:
        generator = dropping[0].seed_generator
        assert generator is not None  # as its rate is not 0
        return generator.next(), 1
    return seeds.reserve(len(dropping))


class _SeedSequence:
    """Derives seeds from a base seed and a counter."""

    # Knuth's multiplicative hash: the odd factor permutes the 32-bit integers,
    # and consecutive numbers get distant seeds.
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
        """Takes `count` numbers; returns the base seed and the first number."""
        first = self._next
        self._next += count
        return self._base, first


class _FixedSeed(keras.random.SeedGenerator):
    """A seed generator that returns a given tensor, for `keras.random`."""

    def __init__(self, seed):
        self._seed_tensor = seed  # No super().__init__: it creates a variable.
        self._initial_seed = seed  # Without, Keras on PyTorch ignores the seed.

    def next(self, ordered=True):
        """Returns the seed."""
        return self._seed_tensor
