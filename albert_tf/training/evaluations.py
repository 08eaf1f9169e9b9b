"""The evaluations of a run: their results, and the best checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from albert_tf.training.best_checkpoint import (
    Best,
    best_of,
    better,
    stops_early,
)
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import TrainingConfig

Evaluate = Callable[[], Mapping[str, float]]


class Evaluations:
    """Evaluates the model of a run, and keeps its best checkpoint.

    Args:
      config: settings of the run.
      evaluate_of: step -> the function that evaluates the model of this step;
        None: the run is not evaluated.
      checkpoints: the checkpoints of the run, if any.

    Attributes:
      lines: the evaluations so far, as in `metrics.jsonl`. They are kept here,
        because workers may not see the chief's log at once.
    """

    def __init__(
        self,
        config: TrainingConfig,
        evaluate_of: Callable[[int], Evaluate | None],
        checkpoints: Checkpoints | None,
    ):
        self._config = config
        self._evaluate_of = evaluate_of
        self._checkpoints = checkpoints
        self._best: Best | None = None
        self.lines: list[Mapping[str, Any]] = []

    def restore(self, lines: list[dict[str, Any]], step: int) -> None:
        """Returns to the state after a step.

        Args:
          lines: the lines of the log.
          step: number of updates done.
        """
        self.lines = [
            x for x in lines if x["split"] == "eval" and x["step"] <= step
        ]
        if self._config.best_metric:
            assert self._checkpoints is not None  # See `open_checkpoints`.
            past = [s for s in self._checkpoints.steps() if s <= step]
            self._best = best_of(lines, self._config.best_metric, past)
            self._checkpoints.keep_best(self._best)

    def is_done(self, step: int) -> bool:
        """Returns whether the model of a step has been evaluated."""
        return any(line["step"] == step for line in self.lines)

    def run(self, step: int) -> tuple[Mapping[str, float], Best | None]:
        """Evaluates the model after a step.

        Returns:
          The result, and its record if it is the best so far; `keep` it then.
          The result is empty if the run is not evaluated.
        """
        evaluate = self._evaluate_of(step)
        if evaluate is None:
            return {}, None
        values = evaluate()
        self.lines.append({"step": step, "split": "eval", "values": values})
        metric = self._config.best_metric
        if not metric:
            return values, None
        return values, better(self._best, step, metric, values)

    def keep(self, best: Best) -> None:
        """Keeps the best checkpoint, which must have been saved."""
        assert self._checkpoints is not None  # See `open_checkpoints`.
        self._best = best
        self._checkpoints.keep_best(best)

    def stops_early(self, step: int) -> bool:
        """Returns whether early stopping ends the run after a step."""
        return stops_early(self._config, step, self.lines)
