"""Settings of evaluations."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Sequence

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns
from albert_tf.finetuning.config import SourceConfig
from albert_tf.settings import check_settings, require, setting, settings_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateConfig(SourceConfig):
    """What to evaluate, and on which data: flags of `albert evaluate`."""

    run: str | os.PathLike[str] | None = setting(
        None,
        "Folder of a pretraining run, or a saved model that still has its "
        "pretraining heads, such as albert_tiny_en.",
    )
    checkpoint: str | int | None = setting(
        None, "Checkpoint of --run: newest (the default), best, or a step."
    )
    model: PathPatterns | None = setting(
        None,
        "Folder of a fine-tuning run or of its model. Several, separated by "
        "commas, form an ensemble.",
    )
    input: PathPatterns | None = setting(
        None,
        "Records: a folder written by create-data, or globs. With --model: a "
        "labelled file of its task.",
    )
    split: str | None = setting(
        None,
        "Split of the records: heldout (the default) or train. With --data or "
        "--from, dev (the default), test or another split of the task.",
    )
    eval_batch_size: int = setting(64, "Batch size.", bounds="[1, 1048576]")
    metrics: Sequence[str] | None = setting(
        None,
        "With --model: the metrics to compute, instead of those of its task.",
    )
    max_eval_steps: int = setting(
        0, "Maximum number of batches; 0 for no limit.", bounds="[0, inf)"
    )
    objective_module: str | os.PathLike[str] | None = setting(
        None,
        "Python file that defines the objective of a pretraining run; it is "
        "executed.",
    )

    def __post_init__(self) -> None:
        check_settings(self)
        self._check_sources()

    def _check_sources(self) -> None:
        if (self.run is None) == (self.model is None):
            raise InputError("give one of --run and --model")
        if self.model is None:
            self._refuse(["metrics"], "requires --model")
            self._check_records()
            return
        self._refuse(
            ["checkpoint", "max_eval_steps", "objective_module"],
            "is not supported with --model",
        )
        has_source = self.data is not None or self.from_library
        if (self.input is None) != has_source:
            raise InputError("--model requires --input, or --data or --from")
        if self.input is not None and self.split is not None:
            raise InputError("--split requires --data or --from")

    def _check_records(self) -> None:
        self._refuse(
            [x.name for x in settings_of(SourceConfig)], "requires --model"
        )
        if self.input is None:
            raise InputError("--input is required: the records to evaluate on")
        require(
            self,
            "split",
            self.split in (None, "heldout", "train"),
            "heldout or train for records",
        )

    def _refuse(self, names: Collection[str], problem: str) -> None:
        for declared in settings_of(type(self)):
            if declared.name in names:
                if getattr(self, declared.name) != declared.default:
                    raise InputError(f"--{declared.flag} {problem}")
