"""Results of fine-tuning runs."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping
from typing import Any

from albert_tf.training.trainer import TrainingResult


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """What a run did.

    Attributes:
      training: what the loop did.
      step: the step whose weights the model has; None: the run was interrupted,
        so there is no model yet.
      scores: of the model on the development set, the key metric first; empty
        if there is none.
    """

    training: TrainingResult
    step: int | None = None
    scores: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunsResult:
    """What one or several runs did.

    Attributes:
      metric: the key metric of the task.
      results: folder below the output, "" for one run -> what it did. The last
        one may have been interrupted, and no other follows then.
    """

    metric: str
    results: Mapping[str, FinetuneResult]

    @property
    def interrupted(self) -> bool:
        """Whether the last run was interrupted."""
        return any(x.training.interrupted for x in self.results.values())

    @property
    def scores(self) -> dict[str, float]:
        """The key metric of each run; empty without a development set."""
        return {
            name: result.scores[self.metric]
            for name, result in self.results.items()
            if result.scores
        }

    def summary(self) -> str:
        """Says in some lines what the runs scored."""
        lines = []
        for name, result in self.results.items():
            text = f"{name or 'model'}: the weights of step {result.step:,}"
            for metric, score in result.scores.items():
                # Such as the number of questions.
                whole = isinstance(score, int)
                text += f", {metric} {score if whole else f'{score:.4f}'}"
            lines.append(text)
        if len(self.scores) > 1:
            median = statistics.median(self.scores.values())
            lines.append(
                f"{self.metric}: median {median:.4f} of {len(self.scores)} runs"
            )
        return "\n".join(lines)

    def to_json(self) -> str:
        """Returns the text of `runs.json`."""
        scores = self.scores
        record: dict[str, Any] = {
            "metric": self.metric,
            "runs": {name: dict(x.scores) for name, x in self.results.items()},
            "best": max(scores, key=lambda name: scores[name])
            if scores
            else "run-0",
        }
        if scores:
            record["median"] = statistics.median(scores.values())
        return json.dumps(record, indent=2) + "\n"
