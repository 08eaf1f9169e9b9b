"""AdamW and LAMB as in the original ALBERT, and gradient clipping."""

from __future__ import annotations

import abc
import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from albert_tf.models.base import AlbertModel
from albert_tf.training.config import RunConfig
from albert_tf.training.layerwise_rates import layerwise_rates

Variable = keras.Variable | tf.Variable

# Name of the number of updates among the slots.
UPDATES = "updates"


def name_of(variable: Variable) -> str:
    """Returns the stable name of a variable: its Keras path or TF name."""
    if isinstance(variable, keras.Variable):
        return variable.path
    return variable.name.removesuffix(":0")


def tf_variable(variable: Variable) -> tf.Variable:
    """Returns the `tf.Variable` that backs a variable."""
    if isinstance(variable, keras.Variable):
        return variable.value
    return variable


def by_name(variables: Iterable[Variable]) -> dict[str, tf.Variable]:
    """Returns the variables by name.

    Raises:
      ValueError: if two variables share a name.
    """
    variables = list(variables)
    counts = Counter(name_of(variable) for variable in variables)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(f"several variables are named {repeated[0]!r}")
    return {name_of(variable): tf_variable(variable) for variable in variables}


# Variables whose names match are not decayed, nor adapted by LAMB.
EXCLUDED = ("LayerNorm", "layer_norm", "bias")


class Optimizer(abc.ABC):
    """Base class: an update in some direction, with decoupled weight decay.

    `w -= rate * (direction + weight_decay * w)`. A subclass computes the
    direction, a function of the gradient and of the slots of a variable.

    Args:
      weight_decay: coefficient of the weight decay.
      exclude: regular expressions. A variable is not decayed (and not adapted
        by LAMB) if any of them is found in its name.
      rate_multipliers: variable name -> factor on its learning rate, and so on
        its decay; 1 for other variables.
      bias_correction: whether to correct the bias of the slots, which start at
        0. The slot `updates` then counts the updates.
    """

    def __init__(
        self,
        weight_decay: float = 0.01,
        *,
        exclude: Sequence[str] = EXCLUDED,
        rate_multipliers: Mapping[str, float] | None = None,
        bias_correction: bool = False,
    ):
        self._weight_decay = weight_decay
        self._exclude = tuple(exclude)
        self._rate_multipliers = dict(rate_multipliers or {})
        self._bias_correction = bias_correction
        self._variables: dict[str, tf.Variable] = {}
        self._slots: dict[str, tf.Variable] = {}

    @abc.abstractmethod
    def slot_shapes(self, shape: tf.TensorShape) -> dict[str, tf.TensorShape]:
        """Returns slot -> its shape, of a variable of this shape."""

    @abc.abstractmethod
    def direction(
        self,
        gradient: tf.Tensor,
        slots: Mapping[str, tf.Variable],
        count: tf.Tensor | None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Returns the direction of an update, and the next values of the slots.

        Args:
          gradient: the gradient of a variable.
          slots: the slots of this variable, by their names in `slot_shapes`.
          count: float32 number of updates, this one included; None without
            bias correction.
        """

    def trust_ratio(
        self, weight: tf.Variable, update_norm: tf.Tensor
    ) -> tf.Tensor | None:
        """Returns a factor on the update; None without adaptation."""
        del weight, update_norm
        return None

    @property
    def slots(self) -> dict[str, tf.Variable]:
        """The slots, named `<variable>/<slot>`, and `updates`."""
        return dict(self._slots)

    def build(self, variables: Iterable[Variable]) -> None:
        """Creates the slots; call it under the strategy's scope.

        Args:
          variables: float32 variables, in the order of the gradients.

        Raises:
          ValueError: if a variable is not float32, or two share a name.
        """
        self._variables = by_name(variables)
        self._slots = {}
        for name, variable in self._variables.items():
            if variable.dtype != tf.float32:
                raise ValueError(
                    f"variable {name!r} is {variable.dtype.name}; "
                    "optimized variables must be float32"
                )
            for slot, shape in self.slot_shapes(variable.shape).items():
                slot_name = f"{name}/{slot}"
                self._slots[slot_name] = tf.Variable(
                    tf.zeros(shape), trainable=False, name=slot_name
                )
        if self._bias_correction:
            self._slots[UPDATES] = tf.Variable(
                0, trainable=False, dtype=tf.int64, name=UPDATES
            )

    def is_excluded(self, name: str) -> bool:
        """Returns whether a variable is neither decayed nor adapted."""
        return any(re.search(pattern, name) for pattern in self._exclude)

    def apply(
        self,
        gradients: Sequence[tf.Tensor | None],
        learning_rate: tf.Tensor | float,
        condition: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Updates variables and slots, inside or outside a replica.

        Args:
          gradients: dense gradients in the order of `build`, already summed
            over all replicas and clipped. A variable whose gradient is None
            does not change, not even by decay.
          learning_rate: scalar.
          condition: bool scalar; if given and false, nothing changes.

        Returns:
          Details by name, float32 scalars, the same on every replica:
          `update_norm/<variable>`, the norm of the update, decay included,
          before trust ratio and learning rate; and `trust_ratio/<variable>`,
          LAMB's factor on the update of an adapted variable.
        """
        pairs = zip(self._variables, gradients, strict=True)
        present = {name: g for name, g in pairs if g is not None}
        replica = tf.distribute.get_replica_context()
        if replica is None:
            strategy = tf.distribute.get_strategy()
            return self._apply(strategy, present, learning_rate, condition)
        return replica.merge_call(
            self._apply, args=(present, learning_rate, condition)
        )

    def _apply(self, strategy, gradients, learning_rate, condition):
        details = {}
        count = self._count(strategy, condition)
        for name, gradient in gradients.items():
            variable = self._variables[name]
            slots = {
                slot: self._slots[f"{name}/{slot}"]
                for slot in self.slot_shapes(variable.shape)
            }
            found = strategy.extended.update(
                variable,
                functools.partial(self._update, name),
                args=(gradient, slots, learning_rate, condition, count),
                group=False,
            )
            # One value for each local device; all are equal.
            names = ("update_norm", "trust_ratio")
            for detail, value in zip(names, tf.unstack(found[0]), strict=False):
                details[f"{detail}/{name}"] = value
        return details

    def _count(self, strategy, condition):
        """Counts an update; returns their number with bias correction."""
        if not self._bias_correction:
            return None
        updates = self._slots[UPDATES]
        one = tf.ones([], tf.int64)
        if condition is not None:
            one = tf.where(condition, one, 0)
        # At least 1: a first update that is skipped must not divide by 0.
        count = tf.maximum(tf.convert_to_tensor(updates) + one, 1)
        strategy.extended.update(
            updates, lambda copy, step: copy.assign_add(step), args=(one,)
        )
        return tf.cast(count, tf.float32)

    def _update(self, name, variable, gradient, slots, rate, condition, count):
        """Updates a device's copy of a variable; returns [norm(, ratio)].

        The result is one tensor, because strategies differ in how they handle
        structures.
        """
        excluded = self.is_excluded(name)
        multiplier = self._rate_multipliers.get(name, 1.0)
        update, following = self.direction(gradient, slots, count)
        if not excluded:
            update += self._weight_decay * variable
        details = [_norm(update)]
        if multiplier != 1.0:
            rate *= multiplier
        if not excluded:
            ratio = self.trust_ratio(variable, details[0])
            if ratio is not None:
                details.append(ratio)
                rate *= ratio
        change = rate * update
        if condition is not None:
            # `tf.where` stays on the device; a `tf.cond` for each variable
            # would wait for the host.
            following = {
                slot: tf.where(condition, value, slots[slot])
                for slot, value in following.items()
            }
            change = tf.where(condition, change, 0.0)
        for slot, value in following.items():
            slots[slot].assign(value)
        variable.assign_sub(change)
        return tf.stack(details)


class AdamW(Optimizer):
    """Adam with decoupled weight decay, by default without bias correction.

    The direction is `m / (sqrt(v) + epsilon)`, as in the original's
    `AdamWeightDecayOptimizer`, with the first moment m in the slot `adam_m` and
    the second moment v in `adam_v`.

    Moments start at 0, which makes the first updates too large: m is too small
    by the factor `1 - beta_1**t` at update t, but sqrt(v) by the square root of
    `1 - beta_2**t`. With bias correction (Kingma and Ba, arXiv:1412.6980), both
    are divided by their factor.

    Args:
      weight_decay: see `Optimizer`.
      beta_1: decay rate of the first moment.
      beta_2: decay rate of the second moment.
      epsilon: added to the square root of the second moment.
      **arguments: further arguments of `Optimizer`.
    """

    def __init__(
        self,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        **arguments: Any,
    ):
        super().__init__(weight_decay, **arguments)
        self._beta_1 = beta_1
        self._beta_2 = beta_2
        self._epsilon = epsilon

    def slot_shapes(self, shape):
        """Returns the shapes of the moments."""
        return {"adam_m": shape, "adam_v": shape}

    def direction(self, gradient, slots, count):
        """Returns the direction, and the next moments."""
        m, v = slots["adam_m"], slots["adam_v"]
        next_m = self._beta_1 * m + (1.0 - self._beta_1) * gradient
        next_v = self._beta_2 * v + (1.0 - self._beta_2) * tf.square(gradient)
        following = {"adam_m": next_m, "adam_v": next_v}
        if count is None:
            return next_m / (tf.sqrt(next_v) + self._epsilon), following
        # expm1, because 1 - beta**t would lose half of float32's digits.
        bias_of_m, bias_of_v = (
            -tf.math.expm1(count * math.log(beta))
            for beta in (self._beta_1, self._beta_2)
        )
        root = tf.sqrt(next_v) / tf.sqrt(bias_of_v)
        return next_m / bias_of_m / (root + self._epsilon), following


class Lamb(AdamW):
    """LAMB (arXiv:1904.00962) as in the original ALBERT.

    The update of AdamW, decay included, is scaled by the trust ratio
    `|w| / |update|` of each variable, which is unbounded, and 1 where either
    norm is zero. Excluded variables are not adapted. Weights that layers share
    are one variable, with one ratio.
    """

    def trust_ratio(self, weight, update_norm):
        """Returns |w| / |update|."""
        weight_norm = _norm(weight)
        both = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
        return tf.where(both, weight_norm / update_norm, 1.0)


# The choices of `RunConfig.optimizer`.
_OPTIMIZERS: Mapping[str, type[Optimizer]] = {"lamb": Lamb, "adamw": AdamW}


def _norm(x: tf.Tensor | tf.Variable) -> tf.Tensor:
    """Returns the L2 norm, a float32 scalar."""
    return tf.sqrt(2.0 * tf.nn.l2_loss(x))


def make_optimizer(config: RunConfig, model: AlbertModel) -> Optimizer:
    """Creates the optimizer of a run; it is not built yet."""
    multipliers = None
    if config.layerwise_lr_decay != 1.0:
        multipliers = layerwise_rates(
            model.config,
            by_name(model.trainable_variables),
            config.layerwise_lr_decay,
        )
    return _OPTIMIZERS[config.optimizer](
        weight_decay=config.weight_decay,
        rate_multipliers=multipliers,
        bias_correction=config.bias_correction,
    )


Gradient = tf.Tensor | tf.IndexedSlices | None


def densify(gradients: Sequence[Gradient]) -> list[tf.Tensor | None]:
    """Converts gradients to dense tensors, which sums slices of the same row.

    Otherwise the norm of an embedding's gradient would be that of its unsummed
    slices. The original clips by that norm, except on TPUs, where it looks up
    embeddings with one-hot products, whose gradient is dense.
    """
    return [
        None if gradient is None else tf.convert_to_tensor(gradient)
        for gradient in gradients
    ]


def clip_by_global_norm(
    gradients: Sequence[Gradient], clip_norm: float
) -> tuple[list[tf.Tensor | None], tf.Tensor]:
    """Clips gradients by their global norm.

    Args:
      gradients: one entry per variable; None for a variable without gradient.
      clip_norm: maximum norm; 0: no clipping.

    Returns:
      The clipped gradients, dense, and the norm before clipping. If the norm is
      not finite, all gradients are NaN.
    """
    dense = densify(gradients)
    norm = tf.linalg.global_norm(dense)
    if clip_norm:
        dense, _ = tf.clip_by_global_norm(dense, clip_norm, use_norm=norm)
    return dense, norm
