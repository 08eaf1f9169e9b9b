"""Several runs that differ in their seeds, and what they score together."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Mapping

import keras

from albert_tf.errors import InputError
from albert_tf.interop.formats.run_folder import RUNS_FILE
from albert_tf.tasks.finetuning.config import FinetuneConfig
from albert_tf.tasks.finetuning.data import TaskFiles
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.finetune import (
    FinetuneResult,
    finetune_prepared,
    prepare_finetuning,
)
from albert_tf.tasks.finetuning.start import open_start
from albert_tf.training.files import write_atomically
from albert_tf.training.workers import is_chief


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


def finetune_runs(
    config: FinetuneConfig,
    description: TaskDescription,
    files: TaskFiles,
    *,
    runs: int = 1,
    run_files: Mapping[str, str] | None = None,
) -> RunsResult:
    """Runs, or resumes, runs with the seeds `config.training.seed` and on.

    Several runs have the folders `run-0`, `run-1` and so on below the output,
    where `runs.json` then tells their scores and which is the best. Examples
    are read once.

    Args:
      config: the settings.
      description: the task.
      files: what to train on and to be scored on.
      runs: how many.
      run_files: see `finetune`.

    Raises:
      InputError: see `finetune`.
    """
    if runs < 1:
        raise InputError(f"runs={runs} must be at least 1")
    output = os.fspath(config.output_dir)
    configs = {"": config}
    if runs > 1:
        configs = {
            f"run-{number}": dataclasses.replace(
                config,
                output_dir=os.path.join(output, f"run-{number}"),
                training=dataclasses.replace(
                    config.training, seed=config.training.seed + number
                ),
            )
            for number in range(runs)
        }
    prepared = None
    results: dict[str, FinetuneResult] = {}
    for name, each in configs.items():
        if prepared is None:
            prepared = prepare_finetuning(each, description, files)
        else:
            keras.backend.clear_session()
            prepared = dataclasses.replace(prepared, start=open_start(each))
        results[name] = finetune_prepared(prepared, each, run_files)
        if results[name].training.interrupted:
            break
    result = RunsResult(metric=description.key_metric, results=results)
    writes = is_chief(prepared.strategy) and not result.interrupted
    if runs > 1 and writes:
        write_atomically(os.path.join(output, RUNS_FILE), _record(result))
    return result


def _record(result: RunsResult) -> str:
    scores = result.scores
    record = {
        "metric": result.metric,
        "runs": {name: dict(x.scores) for name, x in result.results.items()},
        "best": max(scores, key=scores.get) if scores else "run-0",
    }
    if scores:
        record["median"] = statistics.median(scores.values())
    return json.dumps(record, indent=2) + "\n"
