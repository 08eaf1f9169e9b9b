"""AdamW and LAMB as in the original ALBERT, and gradient clipping."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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
    """Returns the variables by name; equal names are a `ValueError`."""
    variables = list(variables)
    counts = Counter(name_of(variable) for variable in variables)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise ValueError(f"several variables are named {repeated[0]!r}")
    return {name_of(variable): tf_variable(variable) for variable in variables}


# A variable is not decayed (and not adapted by LAMB) if this is in its name.
_EXCLUDED = re.compile("LayerNorm|layer_norm|bias")
_MOMENTS = ("adam_m", "adam_v")
_BETAS = (0.9, 0.999)


class AdamW:
    """Adam with decoupled weight decay, by default without bias correction.

    `w -= rate * (direction + weight_decay * w)`. The direction is
    `m / (sqrt(v) + epsilon)`, as in the original's `AdamWeightDecayOptimizer`,
    with the first moment m in the slot `adam_m` and the second moment v in
    `adam_v`.

    Moments start at 0, which makes the first updates too large: m is too small
    by the factor `1 - beta_1**t` at update t, but sqrt(v) by the square root of
    `1 - beta_2**t`. With bias correction (Kingma and Ba, arXiv:1412.6980), both
    are divided by their factor.

    Args:
      weight_decay: coefficient of the weight decay.
      epsilon: added to the square root of the second moment.
      rate_multipliers: variable name -> factor on its learning rate, and so on
        its decay; 1 for other variables.
      bias_correction: whether to correct the bias of the moments. The slot
        `updates` then counts the updates.
    """

    def __init__(
        self,
        weight_decay: float = 0.01,
        *,
        epsilon: float = 1e-6,
        rate_multipliers: Mapping[str, float] | None = None,
        bias_correction: bool = False,
    ):
        self._weight_decay = weight_decay
        self._epsilon = epsilon
        self._rate_multipliers = dict(rate_multipliers or {})
        self._bias_correction = bias_correction
        self._variables: dict[str, tf.Variable] = {}
        self._slots: dict[str, tf.Variable] = {}

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

        `variables` must be float32 and in the order of the gradients.
        """
        self._variables = by_name(variables)
        self._slots = {}
        for name, variable in self._variables.items():
            if variable.dtype != tf.float32:
                raise ValueError(
                    f"variable {name!r} is {variable.dtype.name}; "
                    "optimized variables must be float32"
                )
            for slot in _MOMENTS:
                slot_name = f"{name}/{slot}"
                self._slots[slot_name] = tf.Variable(
                    tf.zeros(variable.shape), trainable=False, name=slot_name
                )
        if self._bias_correction:
            self._slots[UPDATES] = tf.Variable(
                0, trainable=False, dtype=tf.int64, name=UPDATES
            )

    def is_excluded(self, name: str) -> bool:
        """Returns whether a variable is neither decayed nor adapted."""
        return bool(_EXCLUDED.search(name))

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
            moments = [self._slots[f"{name}/{slot}"] for slot in _MOMENTS]
            found = strategy.extended.update(
                self._variables[name],
                functools.partial(self._update, name),
                args=(gradient, moments, learning_rate, condition, count),
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

    def _update(
        self, name, variable, gradient, moments, rate, condition, count
    ):
        """Updates a device's copy of a variable; returns [norm(, ratio)].

        The result is one tensor, because strategies differ in how they handle
        structures.
        """
        update, following = _direction(gradient, moments, count, self._epsilon)
        excluded = self.is_excluded(name)
        if not excluded:
            update += self._weight_decay * variable
        details = [_norm(update)]
        multiplier = self._rate_multipliers.get(name, 1.0)
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
            following = [
                tf.where(condition, value, moment)
                for value, moment in zip(following, moments, strict=True)
            ]
            change = tf.where(condition, change, 0.0)
        for moment, value in zip(moments, following, strict=True):
            moment.assign(value)
        variable.assign_sub(change)
        return tf.stack(details)


def _direction(gradient, moments, count, epsilon):
    """Returns the direction of AdamW, and the next moments.

    `count` is the number of updates, this one included; None without bias
    correction.
    """
    (m, v), (beta_1, beta_2) = moments, _BETAS
    next_m = beta_1 * m + (1.0 - beta_1) * gradient
    next_v = beta_2 * v + (1.0 - beta_2) * tf.square(gradient)
    if count is None:
        return next_m / (tf.sqrt(next_v) + epsilon), (next_m, next_v)
    # expm1, because 1 - beta**t would lose half of float32's digits.
    bias_of_m, bias_of_v = (
        -tf.math.expm1(count * math.log(beta)) for beta in _BETAS
    )
    root = tf.sqrt(next_v) / tf.sqrt(bias_of_v)
    return next_m / bias_of_m / (root + epsilon), (next_m, next_v)


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
_OPTIMIZERS: Mapping[str, type[AdamW]] = {"lamb": Lamb, "adamw": AdamW}


def _norm(x: tf.Tensor | tf.Variable) -> tf.Tensor:
    """Returns the L2 norm, a float32 scalar."""
    return tf.sqrt(2.0 * tf.nn.l2_loss(x))


def make_optimizer(config: RunConfig, model: AlbertModel) -> AdamW:
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
    """Clips gradients, None for variables without one, by their global norm.

    Returns the clipped gradients, dense, and the norm before clipping. If it is
    not finite, all gradients are NaN. With `clip_norm=0` nothing is clipped.
    """
    dense = densify(gradients)
    norm = tf.linalg.global_norm(dense)
    if clip_norm:
        dense, _ = tf.clip_by_global_norm(dense, clip_norm, use_norm=norm)
    return dense, norm
