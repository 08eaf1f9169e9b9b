"""AdamW and LAMB as the original ALBERT computes them."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.training.variables import Variable, by_name

# Searched for in variable names, as regular expressions.
EXCLUDED = ("LayerNorm", "layer_norm", "bias")


class AdamW:
    """Adam without bias correction, with decoupled weight decay.

    `w -= rate * (m / (sqrt(v) + epsilon) + weight_decay * w)`, the original's
    `AdamWeightDecayOptimizer`. The moments are the slots `<name>/adam_m` and
    `<name>/adam_v`.

    Args:
      weight_decay: added to the update, times the weight.
      beta_1: decay rate of the first moment.
      beta_2: decay rate of the second moment.
      epsilon: added to the root of the second moment.
      exclude: regular expressions; a variable whose name contains a match of
        any of them is not decayed (and not adapted, in LAMB).
      rate_multipliers: variable name -> what the learning rate is multiplied
        by for that variable; 1 for those that are not in it. The decay is part
        of the update, so it is multiplied too.
    """

    def __init__(
        self,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude: Sequence[str] = EXCLUDED,
        rate_multipliers: Mapping[str, float] | None = None,
    ):
        self._weight_decay = weight_decay
        self._beta_1 = beta_1
        self._beta_2 = beta_2
        self._epsilon = epsilon
        self._exclude = tuple(exclude)
        self._rate_multipliers = dict(rate_multipliers or {})
        self._variables: dict[str, tf.Variable] = {}
        self._slots: dict[str, tf.Variable] = {}

    def to_dict(self) -> dict[str, Any]:
        """Returns name and arguments, for the record of a run."""
        return {
            "name": type(self).__name__.lower(),
            "weight_decay": self._weight_decay,
            "beta_1": self._beta_1,
            "beta_2": self._beta_2,
            "epsilon": self._epsilon,
            "exclude": list(self._exclude),
            "rate_multipliers": dict(self._rate_multipliers),
        }

    @property
    def slots(self) -> dict[str, tf.Variable]:
        """The moments by name, `<variable name>/adam_m` and `.../adam_v`."""
        return dict(self._slots)

    def build(self, variables: Iterable[Variable]) -> None:
        """Creates the slots; call it under the strategy's scope.

        Args:
          variables: float32 variables, in the order of the later gradients.

        Raises:
          ValueError: a variable is not float32, two share a name, or a rate
            multiplier is of no variable or not a finite number from 0 on.
        """
        self._variables = by_name(variables)
        self._check_rate_multipliers()
        self._slots = {}
        for name, variable in self._variables.items():
            if variable.dtype != tf.float32:
                raise ValueError(
                    f"variable {name!r} is {variable.dtype.name}; "
                    "optimized variables must be float32"
                )
            for slot in ("adam_m", "adam_v"):
                slot_name = f"{name}/{slot}"
                self._slots[slot_name] = tf.Variable(
                    tf.zeros(variable.shape), trainable=False, name=slot_name
                )

    def _check_rate_multipliers(self):
        for name, multiplier in self._rate_multipliers.items():
            if name not in self._variables:
                raise ValueError(
                    f"rate_multipliers names {name!r}, which is no variable"
                )
            if not (multiplier >= 0 and math.isfinite(multiplier)):
                raise ValueError(
                    f"rate_multipliers[{name!r}]={multiplier} must be finite "
                    "and at least 0"
                )

    def is_excluded(self, name: str) -> bool:
        """Whether the variable of this name is neither decayed nor adapted."""
        return any(re.search(pattern, name) for pattern in self._exclude)

    def apply(
        self,
        gradients: Sequence[tf.Tensor | None],
        learning_rate: tf.Tensor | float,
        condition: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Updates variables and slots; works in and outside of a replica.

        Args:
          gradients: final gradients, dense, in the order of `build`: already
            summed over all replicas and clipped. A variable whose gradient is
            None is left alone: no decay either.
          learning_rate: scalar.
          condition: bool scalar; where given and false, nothing changes.

        Returns:
          What is worth a look, float32 scalars, the same on every replica.
          `update_norm/<variable>`: the norm of the update, decay included,
          before trust ratio and learning rate. `trust_ratio/<variable>`, of
          adapted variables: the ratio that the update was multiplied by.
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
        for name, gradient in gradients.items():
            found = strategy.extended.update(
                self._variables[name],
                functools.partial(
                    self._update,
                    self.is_excluded(name),
                    self._rate_multipliers.get(name, 1.0),
                ),
                args=(
                    gradient,
                    self._slots[f"{name}/adam_m"],
                    self._slots[f"{name}/adam_v"],
                    learning_rate,
                    condition,
                ),
                group=False,
            )
            # One value for each device here, and all of them equal.
            kinds = ("update_norm", "trust_ratio")
            for kind, value in zip(kinds, tf.unstack(found[0]), strict=False):
                details[f"{kind}/{name}"] = value
        return details

    def _update(
        self, excluded, multiplier, variable, gradient, m, v, rate, condition
    ):
        """Updates one device's copy of one variable; returns its details.

        They are one tensor, [norm] or [norm, ratio]: the strategies differ in
        what they make of other structures. What nobody reads is not computed.
        """
        next_m = self._beta_1 * m + (1.0 - self._beta_1) * gradient
        next_v = self._beta_2 * v + (1.0 - self._beta_2) * tf.square(gradient)
        update = next_m / (tf.sqrt(next_v) + self._epsilon)
        if not excluded:
            update += self._weight_decay * variable
        details = [_norm(update)]
        if multiplier != 1.0:
            rate *= multiplier
        if not excluded:
            ratio = self._trust_ratio(variable, details[0])
            if ratio is not None:
                details.append(ratio)
                rate *= ratio
        change = rate * update
        if condition is not None:
            # Selecting keeps the decision on the device; a tf.cond would wait
            # for it on the host, once a variable.
            next_m = tf.where(condition, next_m, m)
            next_v = tf.where(condition, next_v, v)
            change = tf.where(condition, change, 0.0)
        m.assign(next_m)
        v.assign(next_v)
        variable.assign_sub(change)
        return tf.stack(details)

    def _trust_ratio(self, weight, update_norm):
        """Returns what the update is multiplied by; None for no adaptation."""
        del weight, update_norm


class Lamb(AdamW):
    """LAMB (arXiv:1904.00962) as the original ALBERT computes it.

    The update of AdamW, decay included, is scaled by `|w| / |update|` for each
    variable on its own, unbounded, and by 1 where either norm is zero.
    Excluded variables are not adapted. A block that layers share is one
    variable and has one ratio for all its uses.
    """

    def _trust_ratio(self, weight, update_norm):
        weight_norm = _norm(weight)
        both = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
        return tf.where(both, weight_norm / update_norm, 1.0)


def _norm(x: tf.Tensor | tf.Variable) -> tf.Tensor:
    """Returns the Euclidean norm, a float32 scalar."""
    return tf.sqrt(2.0 * tf.nn.l2_loss(x))
