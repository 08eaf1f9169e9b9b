"""Settings of fine-tuning runs."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Sequence
from typing import Literal

from albert_tf.errors import InputError
from albert_tf.files import PathPatterns
from albert_tf.finetuning.class_weights import ClassWeights, parse_class_weights
from albert_tf.finetuning.data import FILES
from albert_tf.finetuning.library_datasets import SOURCES
from albert_tf.finetuning.registry import known_tasks, load_task_module
from albert_tf.finetuning.task_config import TaskConfig, TaskSettings
from albert_tf.settings import (
    EVALUATION,
    EXAMPLES,
    LEARNING_RATE,
    LENGTH,
    LOSS,
    MODEL,
    OPTIMIZER,
    described,
    setting,
)
from albert_tf.training.config import RunConfig

DevSelection = Literal["whole", "half"]
# Pretraining has more schedules, with settings of their own.
Schedule = Literal["polynomial", "linear", "cosine"]

# The task of the user's own tables, which the settings describe.
TEXT_TASK = "text"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskModuleConfig:
    """The setting for task types of the user."""

    task_module: str | None = setting(
        None,
        "Python file that registers custom task types. It is executed.",
        group=MODEL,
        on_resume="not_recorded",
    )

    def load_task_module(self) -> None:
        """Imports the file, if one is given."""
        if self.task_module is not None:
            load_task_module(self.task_module)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceConfig(TaskModuleConfig):
    """Settings for the source of examples, and for invalid ones."""

    # Its flag is a keyword of Python.
    source: str = setting(
        FILES,
        "Source of the task's data: files as distributed, TensorFlow Datasets "
        "or Hugging Face datasets. With the latter two, --data is optional: a "
        "folder that contains the data sets.",
        flag="from",
        choices=(FILES, *SOURCES),
        group=EXAMPLES,
        on_resume="not_recorded",
    )
    data: str | os.PathLike[str] | None = setting(
        None,
        "Folder of the task's files as distributed, or its parent folder; see "
        "also --from.",
        group=EXAMPLES,
        on_resume="not_recorded",
    )
    on_bad_example: Literal["stop", "skip"] = setting(
        "stop",
        "What to do with invalid examples: stop, or skip, count and list them.",
        group=EXAMPLES,
        on_resume="not_recorded",
    )

    @property
    def from_library(self) -> bool:
        """Whether examples come from a dataset library."""
        return self.source != FILES


def column(name: str) -> str | int:
    """Parses a column: its name, or its number in a table without a header."""
    return int(name) if name.isdecimal() else name


# The task's settings are recorded with the data, see `load_data`.
_task_setting = functools.partial(
    setting, group=EXAMPLES, on_resume="not_recorded"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskDataConfig(SourceConfig):
    """Settings for the task of a run and its examples."""

    task: str | TaskConfig = dataclasses.field(
        metadata=described(
            f"The task: {', '.join(known_tasks())}, a task of --task_module, "
            f"or {TEXT_TASK}: labels or numbers of your own texts. Required.",
            group=MODEL,
            on_resume="not_recorded",
        )
    )
    train: PathPatterns | None = _task_setting(
        None,
        "Files to train on, separated by commas; with --from, splits, such as "
        "train[:90%].",
    )
    dev: PathPatterns | None = _task_setting(
        None, "Files, or splits, to evaluate on, separated by commas."
    )
    text_column: str | int = _task_setting(
        "text",
        f"{TEXT_TASK}: column of the text: its name, or its number from 0.",
        parse=column,
    )
    pair_column: str | int | None = _task_setting(
        None, f"{TEXT_TASK}: column of a second text.", parse=column
    )
    label_column: str | int = _task_setting(
        "label", f"{TEXT_TASK}: column of the label.", parse=column
    )
    id_column: str | int | None = _task_setting(
        None,
        f"{TEXT_TASK}: column of an ID. Default: the number of the row.",
        parse=column,
    )
    header: bool | None = _task_setting(
        None,
        f"{TEXT_TASK}: whether files begin with the names of their columns. "
        "Default: true if a column is given by name.",
    )
    classes: Sequence[str] | None = _task_setting(
        None,
        f"{TEXT_TASK}: the labels, in order. Default: those of the training "
        "files.",
    )
    regression: bool = _task_setting(
        False, f"{TEXT_TASK}: the labels are numbers (regression)."
    )
    metrics: Sequence[str] | None = _task_setting(
        None,
        "Metrics; the first selects the best weights: accuracy, f1, matthews; "
        "for regression pearson, spearman; for token classification f1, "
        "precision, recall, accuracy. Default: the task's metrics.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetuneConfig(RunConfig, TaskSettings, TaskDataConfig):
    """Settings of a fine-tuning run.

    Every field is a flag of `albert finetune`; its help describes it. `task`
    may also be a `TaskConfig`.
    """

    runs: int = setting(
        1,
        "Number of runs, with consecutive seeds from --seed, in folders run-0, "
        "run-1, ...; reports their median.",
        group=LENGTH,
        bounds="[1, 1000]",
        on_resume="not_recorded",
    )
    init_from: str | os.PathLike[str] = dataclasses.field(
        metadata=described(
            "Checkpoint of any format to start from, or a name such as "
            "albert_tiny_en, or the folder of another fine-tuning run, such as "
            "one on mnli for rte; required.",
            group=MODEL,
        )
    )
    head_dropout: float = setting(
        0.1, "Dropout before the task's head.", group=MODEL, bounds="[0, 1)"
    )
    num_train_epochs: float | None = setting(
        None,
        "Number of epochs (default: 3, unless --num_train_steps is given).",
        group=LENGTH,
        bounds="(0, 1000000]",
    )
    num_train_steps: int = setting(
        0,
        "Number of training steps, instead of epochs; 0: see "
        "--num_train_epochs.",
        group=LENGTH,
        bounds="[0, inf)",
    )
    num_warmup_steps: int | None = setting(
        None, "Number of warm-up steps.", group=LEARNING_RATE, bounds="[0, inf)"
    )
    warmup_proportion: float = setting(
        0.1,
        "Warm-up as a fraction of all steps.",
        group=LEARNING_RATE,
        bounds="[0, 1)",
    )
    schedule: Schedule = setting(
        "polynomial",
        "Learning rate decay after the warm-up. polynomial: the original's, "
        "whose decay begins at step 0, so that the rate drops at the end of "
        "the warm-up. linear, cosine: decay from the end of the warm-up.",
        group=LEARNING_RATE,
    )
    bias_correction: bool = setting(
        True,
        "Correct the bias of the optimizer's moments, which start at 0: short "
        "runs on few examples then fail less often (arXiv:2006.04884, "
        "arXiv:2006.05987).",
        group=OPTIMIZER,
    )
    class_weights: ClassWeights | None = setting(
        None,
        "Weights of the classes in the loss: by label, such as bad=2,good=1 "
        "(others: 1); of all labels in order, such as 2,1; or balanced: "
        "inversely proportional to the frequencies of the classes.",
        group=LOSS,
        parse=parse_class_weights,
    )
    label_smoothing: float = setting(
        0.0,
        "Share of a label's probability that the loss spreads evenly over all "
        "classes or options.",
        group=LOSS,
        bounds="[0, 1)",
    )
    temperature: float = setting(
        0.05,
        "Embeddings: divisor of the cosines in the contrastive loss; 0.05 is "
        "sentence-transformers' scale of 20.",
        group=LOSS,
        bounds="[0.001, 100]",
    )
    # These two determine which weights the model gets.
    eval_steps: int = setting(
        0,
        "Steps between evaluations; 0: an epoch.",
        group=EVALUATION,
        bounds="[0, inf)",
    )
    dev_selection: DevSelection = setting(
        "whole",
        "Which part of the development set selects the best weights: the whole "
        "set, which is also scored, or one half, while the other half is "
        "scored, as a test set would be.",
        group=EVALUATION,
    )
    best_metric: str = setting(
        "",
        "Metric that selects the best checkpoint: the task's first.",
        flag=None,
    )
    keep_checkpoint_max: int = 1
    log_update_norms: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_train_epochs is not None and self.num_train_steps:
            raise InputError(
                "give either num_train_epochs or num_train_steps, not both"
            )
        if self.num_train_steps:
            self.require_warmup_within(
                self.warmup_steps,
                "set warmup_proportion instead, such as --warmup_proportion="
                "0.1, or train longer",
            )

    def _check_early_stopping(self) -> None:
        """Does nothing; `task_and_files` checks it, once the data is known."""

    @property
    def fixed_length(self) -> bool:
        """Whether all batches have the same shape, as XLA requires."""
        return self.tpu is not None or self.jit_compile

    @property
    def warmup_steps(self) -> int:
        """Number of warm-up steps."""
        if self.num_warmup_steps is not None:
            return self.num_warmup_steps
        return int(self.num_train_steps * self.warmup_proportion)

    def resolved(self, examples: int, best_metric: str) -> FinetuneConfig:
        """Fills in the settings that depend on the data and the folder.

        Args:
          examples: number of training examples.
          best_metric: metric that selects the best checkpoint; "" without a
            development set.
        """
        steps_per_epoch = examples / self.train_batch_size
        num_train_steps = self.num_train_steps
        if not num_train_steps:
            epochs = self.num_train_epochs or 3.0
            num_train_steps = max(1, round(epochs * steps_per_epoch))
        return dataclasses.replace(
            self,
            num_train_epochs=None,
            num_train_steps=num_train_steps,
            eval_steps=self.eval_steps or math.ceil(steps_per_epoch),
            best_metric=best_metric,
        )
