"""Development sets, and results of runs beside those of trivial predictions."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.finetuning.config import DevSelection
from albert_tf.finetuning.features import Features
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.task_type import TaskType
from albert_tf.training.best_checkpoint import lower_is_better, rank
from albert_tf.training.result import TrainingResult

Scores = dict[str, float]

# Prefix of the scores of the half that does not select, in logs.
_HELD = "held_half_"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DevSet:
    """The development set of a run: what selects the weights, and is scored.

    The best of many evaluations on a set is better than the model is on other
    examples. With `selection="half"`, one half selects the weights, and the
    other is scored, as a test set would be.

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
        """Returns the scores to log.

        Those that select the weights have the names of the metrics, and those
        of the other half a prefix. Settings that are chosen on the first half,
        such as a null threshold, are applied to the second.
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
        """Returns the scores of the run from those that `evaluate` returned."""
        scores = {n: math.nan if x is None else x for n, x in logged.items()}
        if self.selection == "whole":
            return scores
        return {
            name.removeprefix(_HELD): x
            for name, x in scores.items()
            if name.startswith(_HELD)
        }


EVALUATION_FILE = "eval.json"

Baselines = Mapping[str, Mapping[str, float]]

_ADVICE = (
    "try a higher --learning_rate or more --num_train_epochs, see with --runs "
    "whether the seed matters, and start from a model that has been pretrained "
    "well"
)


def tuned_scores(
    task_type: TaskType, examples: Sequence[Any], predictions: Sequence[Any]
) -> dict[str, float]:
    """Returns the scores at the settings that `TaskType.tune` returns."""
    settings = task_type.tune(examples, predictions)
    if settings:
        tuned = task_type.task_config.with_settings(settings)
        task_type = type(task_type)(tuned)
    return task_type.scores(examples, predictions)


def finite(scores: Mapping[str, float]) -> dict[str, float]:
    """Returns the scores without undefined ones, which JSON does not have.

    The correlation of constant predictions is undefined, for example.
    """
    return {name: x for name, x in scores.items() if math.isfinite(x)}


def with_null(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Returns the scores with None for undefined ones."""
    return {**dict.fromkeys(scores), **finite(scores)}


def score_lines(scores: Mapping[str, float]) -> list[str]:
    """Returns a line for each score; counts are integers."""
    texts = {
        name: f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        for name, value in scores.items()
    }
    return [f"{name:22} {text:>10}" for name, text in texts.items()]


def _described(scores: Mapping[str, float]) -> str:
    """Formats scores, such as "accuracy 0.9000, loss 0.3000"."""
    parts = []
    for metric, score in scores.items():
        text = f"{score:.4f}" if math.isfinite(score) else "undefined"
        # Counts, such as the number of questions, are integers.
        parts.append(f"{metric} {score if isinstance(score, int) else text}")
    return ", ".join(parts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """Result of a run.

    Attributes:
      training: result of the training loop.
      step: the step of the model's weights; None if the run was interrupted
        before the model was saved.
      scores: the model's scores on the development set, the key metric first;
        empty without a development set.
    """

    training: TrainingResult
    step: int | None = None
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """What the scores of a task are compared with.

    Attributes:
      num_examples: number of examples that were scored.
      num_scored: number of predictions for them; see `TaskType.num_scored`.
      selection: see `DevSet`.
      baselines, perfect_score, lower_is_better: see `TaskType`.
    """

    baselines: Baselines = dataclasses.field(default_factory=dict)
    num_examples: int = 0
    num_scored: int = 0
    selection: str = "whole"
    perfect_score: float = 1.0
    lower_is_better: Sequence[str] = ()

    def warning(self, metric: str, score: float) -> str:
        """Returns a line if a score is that of the first baseline, else "".

        A score within the standard error of an accuracy, at most, is not
        better. Where the baseline is undefined, as the correlation of a
        constant, it counts as 0.
        """
        if not self.baselines:
            return ""
        name, scores = next(iter(self.baselines.items()))
        if metric not in scores:
            return ""
        trivial = scores[metric] if math.isfinite(scores[metric]) else 0.0
        error = self.perfect_score / 2 / math.sqrt(self.num_scored)
        if lower_is_better(metric, self.lower_is_better):
            score, trivial = -score, -trivial
        if math.isfinite(score) and score > trivial + error:
            return ""
        return (
            f"no better than the {name}: the model has learned next to "
            f"nothing; {_ADVICE}"
        )

    def to_json(self, metric: str, result: FinetuneResult) -> str:
        """Returns the text of `eval.json`, with null for undefined scores."""
        record = {
            "step": result.step,
            "metric": metric,
            "examples": self.num_examples,
            "dev_selection": self.selection,
            "scores": with_null(result.scores),
            "baselines": {n: with_null(x) for n, x in self.baselines.items()},
        }
        return json.dumps(record, indent=2) + "\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunsResult:
    """Results of one or several runs.

    Attributes:
      metric: the key metric of the task.
      results: folder below the output ("" for a single run) -> result. If the
        last run was interrupted, later ones were not started.
      reference: what the scores are compared with.
      unstarted: number of runs that a signal kept from being started.
    """

    metric: str
    results: Mapping[str, FinetuneResult]
    reference: Reference = Reference()
    unstarted: int = 0

    @property
    def interrupted(self) -> bool:
        """Whether the last run was interrupted, or another was not started."""
        last = [*self.results.values()][-1]
        return self.unstarted > 0 or last.training.interrupted

    @property
    def scores(self) -> dict[str, float]:
        """The key metric of each run; empty without a development set."""
        return {
            name: result.scores[self.metric]
            for name, result in self.results.items()
            if result.scores
        }

    @property
    def best(self) -> FinetuneResult:
        """The result of the best run, or of the first without scores."""
        return self.results[self._best_name]

    @property
    def _best_name(self) -> str:
        scores = finite(self.scores)

        def ranked(name: str) -> tuple[float, float]:
            loss = self.results[name].scores.get("loss")
            errors = self.reference.lower_is_better
            return rank(self.metric, scores[name], loss, errors)

        return max(scores, key=ranked) if scores else next(iter(self.results))

    def summary(self) -> str:
        """Describes the scores of runs and baselines, one line each."""
        lines = []
        for name, result in self.results.items():
            text = f"{name or 'model'}: "
            if result.step is None:
                text += f"interrupted after step {result.training.steps:,}"
            else:
                text += f"the weights of step {result.step:,}"
            lines.append(
                ", ".join(filter(None, [text, _described(result.scores)]))
            )
        scores = finite(self.scores)
        if len(scores) > 1:
            median, low, high, deviation = _spread(scores)
            lines.append(
                f"{self.metric}: median {median:.4f} of {len(scores)} runs, "
                f"{low:.4f} to {high:.4f}, standard deviation {deviation:.4f}"
            )
        for name, found in self.reference.baselines.items():
            lines.append(f"{name}: {_described(found)}")
        if self.scores:
            typical = statistics.median(scores.values()) if scores else math.nan
            lines.append(self.reference.warning(self.metric, typical))
        return "\n".join(filter(None, lines))

    def to_json(self) -> str:
        """Returns the text of `runs.json`, with null for undefined scores."""
        scores = finite(self.scores)
        record: dict[str, Any] = {
            "metric": self.metric,
            "runs": {n: with_null(x.scores) for n, x in self.results.items()},
            "best": self._best_name,
        }
        if scores:
            names = ("median", "lowest", "highest", "standard_deviation")
            record |= dict(zip(names, _spread(scores), strict=True))
        return json.dumps(record, indent=2) + "\n"


def _spread(scores: Mapping[str, float]) -> tuple[float, float, float, float]:
    """Returns median, minimum, maximum and standard deviation."""
    values = list(scores.values())
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.median(values), min(values), max(values), deviation
