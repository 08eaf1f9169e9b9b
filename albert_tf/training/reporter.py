"""Where the metrics of a run go: the terminal and the run's folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from albert_tf.training.metrics_log import MetricsLog
from albert_tf.training.progress import Progress
from albert_tf.training.training_config import TrainingConfig


class Reporter:
    """Shows progress and writes the log; silent where not enabled.

    Args:
      run_dir: the folder of the run; None to write nothing.
      total_steps: steps of the whole run.
      step: the step that the run (re)starts from.
      enabled: false in every process but one of a run of several workers.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike | None,
        total_steps: int,
        step: int,
        enabled: bool = True,
    ):
        self._progress = Progress(total_steps, step) if enabled else None
        self._log = None
        if enabled and run_dir is not None:
            self._log = MetricsLog(run_dir, step)

    def advance(self, steps: int) -> None:
        """Counts steps."""
        if self._progress is not None:
            self._progress.advance(steps)

    def report(
        self,
        step: int,
        split: str,
        values: Mapping[str, float],
        details: Mapping[str, float] | None = None,
    ) -> None:
        """Shows and writes the metrics of a step; details go to TensorBoard."""
        if self._progress is not None:
            self._progress.report(step, split, values)
        if self._log is not None:
            self._log.write(step, split, values, details)

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exception) -> None:
        if self._progress is not None:
            self._progress.close()
        if self._log is not None:
            self._log.close()


def say_how_to_resume(step: int, run_dir: str | os.PathLike | None) -> None:
    """Says that a run was interrupted after a step, and what is saved."""
    saved = "nothing saved: the run has no folder"
    if run_dir is not None:
        saved = f"saved in {os.fspath(run_dir)}; the same command resumes"
    _say(f"Stopped after step {step}, {saved}.")


def say_why_it_stopped(step: int, config: TrainingConfig) -> None:
    """Says that a run was stopped early after a step."""
    _say(
        f"Stopped early after step {step} of {config.total_steps}: "
        f"{config.best_metric} was not better in the last "
        f"{config.early_stopping_patience} evaluations."
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
