"""The development set of a run: what selects the weights, and what is scored.

The best of many evaluations on a set is better than the model is on other
examples. With `dev_selection="half"`, one half of the development set selects
the weights and the other is scored, as a test set would be.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.config import DevSelection
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.task_type import TaskType, tuned_scores

Scores = dict[str, float]

# Prefix of the scores of the half that does not select, in logs.
_HELD = "held_half_"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DevSet:
    """A development set.

    Attributes:
      examples: labelled examples.
      features: their features, without labels.
      selection: whether the whole set selects the weights and is scored, or
        half of it each. The halves are the same for all runs and seeds.
    """

    examples: Sequence[Any]
    features: Features
    selection: DevSelection

    def check(self, task_type: TaskType) -> None:
        """Raises an `InputError` if the examples cannot be scored."""
        if self.selection == "half" and len(self.examples) < 2:
            raise InputError(
                "dev_selection='half' needs at least 2 development examples"
            )
        task_type.check_scores(self.examples)
        if self.selection == "half":
            for half in self._halves:
                task_type.check_scores([self.examples[i] for i in half])

    @property
    def scored(self) -> list[Any]:
        """The examples whose scores are those of the run."""
        return [self.examples[i] for i in self._halves[1]]

    @functools.cached_property
    def _halves(self) -> tuple[Sequence[int], Sequence[int]]:
        """Indices of the examples that select, and of those that are scored."""
        count = len(self.examples)
        if self.selection == "whole":
            return range(count), range(count)
        order = np.random.default_rng(0).permutation(count)
        first, second = np.split(order, [count // 2])
        return sorted(first.tolist()), sorted(second.tolist())

    def evaluate(
        self, task_type: TaskType, predictions: Sequence[Any]
    ) -> Scores:
        """Returns the scores to log: those that select under their own names.

        Settings that are chosen on the first half, such as a null threshold,
        are applied to the second.
        """
        selecting, held = (
            ([self.examples[i] for i in half], [predictions[i] for i in half])
            for half in self._halves
        )
        scores = tuned_scores(task_type, *selecting)
        if self.selection == "whole":
            return scores
        chosen = make_task_type(task_type.task_config.with_tuned(scores))
        others = chosen.scores(*held)
        return scores | {f"{_HELD}{name}": x for name, x in others.items()}

    def reported(self, logged: Mapping[str, float | None]) -> Scores:
        """Returns the scores of the run from those that `evaluate` returned.

        Args:
          logged: the scores, with None for undefined ones.
        """
        scores = {n: math.nan if x is None else x for n, x in logged.items()}
        if self.selection == "whole":
            return scores
        return {
            name.removeprefix(_HELD): x
            for name, x in scores.items()
            if name.startswith(_HELD)
        }
