"""The result of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of `Trainer.fit`.

    Attributes:
      steps: updates done, including those before the run was resumed.
      interrupted: whether SIGINT or SIGTERM ended the run early.
      metrics: the last training metrics by name; empty if no step was run.
      evaluation: the last result of `evaluate`, by name.
      stopped_early: whether `early_stopping_patience` ended the run.
      evaluations: step -> result of `evaluate`, also from before the run was
        resumed, with None for non-finite values.
      stop_requested: whether there was a SIGINT or SIGTERM, even if it came too
        late to interrupt the run.
    """

    steps: int
    interrupted: bool
    metrics: Mapping[str, float]
    evaluation: Mapping[str, float]
    stopped_early: bool = False
    evaluations: Mapping[int, Mapping[str, float | None]] = dataclasses.field(
        default_factory=dict
    )
    stop_requested: bool = False
