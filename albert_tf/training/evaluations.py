"""The evaluations of a run: the best checkpoint, and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.training.best_checkpoint import Best, rank
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.config import TrainingConfig

Evaluate = Callable[[], Mapping[str, float]]


class Evaluations:
    """Evaluates the model of a run, and keeps its best checkpoint.

    Of equal values of the metric, that with the lower loss is the best; if
    losses are equal, too, the later one, whose weights have been trained
    longer. Early stopping counts neither as an improvement: they would keep a
    run going whose metric does not change any more. It depends only on the
    evaluations up to a checkpoint, so a run that is killed and resumed stops at
    the same step.

    Args:
      config: settings of the run.
      evaluate_of: step -> the function that evaluates the model of this step;
        None: the run is not evaluated.
      checkpoints: the checkpoints of the run, if any.
      errors: metrics of which the lowest is the best, besides losses.

    Attributes:
      results: step -> evaluation. They are kept here, because workers may not
        see the chief's log at once.
      best: the best evaluation whose checkpoint is kept.
      since_improvement: number of evaluations since the metric has improved.
    """

    def __init__(
        self,
        config: TrainingConfig,
        evaluate_of: Callable[[int], Evaluate | None],
        checkpoints: Checkpoints | None = None,
        errors: Sequence[str] = (),
    ):
        self._config = config
        self._evaluate_of = evaluate_of
        self._checkpoints = checkpoints
        self._errors = errors
        self._highest: float | None = None
        self.results: dict[int, Mapping[str, float | None]] = {}
        self.best: Best | None = None
        self.since_improvement = 0

    def restore(self, lines: Iterable[Mapping[str, Any]], step: int) -> None:
        """Returns to the state after a step.

        `lines` are those of the log, `metrics.jsonl`.
        """
        saved = self._checkpoints.steps() if self._checkpoints else ()
        for line in lines:
            if line["split"] == "eval" and line["step"] <= step:
                best = self._add(line["step"], line["values"])
                if line["step"] in saved:
                    self.best = best or self.best
        if self._config.best_metric and self._checkpoints:
            self._checkpoints.keep_best(self.best)

    def run(self, step: int) -> tuple[Mapping[str, float], Best | None]:
        """Evaluates the model after a step.

        Returns the result, empty if the run is not evaluated, and its record if
        it is the best so far; `keep` it then.
        """
        evaluate = self._evaluate_of(step)
        if evaluate is None:
            return {}, None
        values = evaluate()
        metric = self._config.best_metric
        if metric and metric not in values:
            raise InputError(
                f"best_metric={metric!r}: the evaluation has "
                f"{', '.join(sorted(values)) or 'no metric'}"
            )
        return values, self._add(step, values)

    def _add(
        self, step: int, values: Mapping[str, float | None]
    ) -> Best | None:
        """Counts an evaluation; returns its record if it is the best so far."""
        self.results[step] = values
        self.since_improvement += 1
        found = Best.of(step, self._config.best_metric, values)
        if found is None:
            return None
        found_rank = self._rank(found)
        if self._highest is None or found_rank[0] > self._highest:
            self._highest, self.since_improvement = found_rank[0], 0
        if self.best and found_rank < self._rank(self.best):
            return None
        return found

    def _rank(self, best: Best) -> tuple[float, float]:
        return rank(best.metric, best.value, best.loss, self._errors)

    def keep(self, best: Best) -> None:
        """Keeps the best checkpoint, which must have been saved."""
        assert self._checkpoints is not None  # See `open_checkpoints`.
        self.best = best
        self._checkpoints.keep_best(best)

    def stops_early(self, step: int) -> bool:
        """Returns whether early stopping ends the run after a step."""
        patience = self._config.early_stopping_patience
        if not patience or step >= self._config.num_train_steps:
            return False
        return self.since_improvement >= patience
