"""Fine-tuning, from the settings to the model folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from albert_tf.errors import InputError
from albert_tf.files import split_patterns
from albert_tf.finetuning.config import TEXT_TASK, FinetuneConfig
from albert_tf.finetuning.data import (
    Source,
    TaskFiles,
    find_split,
    read_examples,
)
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.registry import (
    known_task,
    make_task_type,
    with_metrics,
    with_settings,
)
from albert_tf.finetuning.task_config import TaskConfig, TaskSettings
from albert_tf.finetuning.text_classification.examples import (
    text_task_config,
    text_task_from_columns,
)
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import settings_of, takes

if TYPE_CHECKING:
    import keras

    from albert_tf.finetuning.results import RunsResult

_TEXT_ONLY = (
    *("text_column", "pair_column", "label_column", "id_column"),
    *("header", "classes", "regression"),
)


@takes(FinetuneConfig)
def finetune(
    config: FinetuneConfig,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    command_files: Mapping[str, str] | None = None,
) -> RunsResult:
    """Starts or resumes a fine-tuning run, or several with different seeds.

    The folder of a run contains `run.json` and the tokenizer from the first
    step on, checkpoints and logs like those of pretraining, and finally
    `model/` with the weights that scored best on the development set. Several
    runs have the subfolders `run-0`, `run-1`, ... of the output folder, where
    `runs.json` records their scores and the best run.

    Args:
      config: the settings.
      callbacks: Keras callbacks, called in every run; see `RunCallbacks`.
      command_files: text files that describe the command, such as its flags, to
        write to the folders of the runs: name -> content.

    Raises:
      InputError: if the data, the checkpoint, the settings or the folder are
        not valid. Nothing has been trained or written in this case.
    """
    task_config, files = task_and_files(config)
    # Only now, so that errors in settings and columns do not wait for it.
    import_tensorflow()
    from albert_tf.finetuning.train import train_runs

    return train_runs(
        config,
        task_config,
        files,
        callbacks=callbacks,
        command_files=command_files,
    )


def task_and_files(config: FinetuneConfig) -> tuple[TaskConfig, TaskFiles]:
    """Returns the task of a run, with its labels, and its data."""
    config.load_task_module()
    train: list[Source] = [*split_patterns(config.train or ())]
    dev: list[Source] = [*split_patterns(config.dev or ())]
    if not config.from_library and bool(config.data) == bool(train):
        raise InputError("give either --data or --train, and --dev with it")
    task_config = _task_config(config, train)
    settings = {
        x.name: getattr(config, x.name) for x in settings_of(TaskSettings)
    }
    task_type = make_task_type(with_settings(task_config, settings))

    def split(name: str) -> Source:
        return find_split(
            task_type, name, source=config.source, data=config.data
        )

    if config.from_library:
        train = [split(str(name)) for name in train or ["train"]]
        dev = [split(str(name)) for name in dev or ["dev"]]
    elif config.data:
        train, dev = [split("train")], dev or [split("dev")]
    if config.early_stopping_patience and not dev:
        raise InputError(
            f"early_stopping_patience={config.early_stopping_patience} needs a "
            "development set; give --dev"
        )
    bad = BadExamples(config.on_bad_example)
    task_config = task_type.task_config
    if task_type.learns_labels:
        labels = {
            label
            for example in read_examples(
                task_type, train, bad=bad, labelled=True
            )
            for label in example.labels
        }
        task_config = dataclasses.replace(
            task_config, labels=tuple(sorted(labels))
        )
    if config.metrics:
        task_config = with_metrics(task_config, config.metrics)
    return task_config, TaskFiles(
        train=train, dev=dev, on_bad_example=config.on_bad_example
    )


def _task_config(config: FinetuneConfig, train: Sequence[Source]) -> TaskConfig:
    if config.task != TEXT_TASK:
        defaults = {x.name: x.default for x in dataclasses.fields(config)}
        for name in _TEXT_ONLY:
            if getattr(config, name) != defaults[name]:
                raise InputError(
                    f"--{name} requires --task={TEXT_TASK}; the task "
                    f"{config.task} has fixed columns and labels"
                )
        if isinstance(config.task, TaskConfig):
            return config.task
        return known_task(config.task)
    if config.from_library:
        raise InputError(
            f"--from={config.source} does not support --task={TEXT_TASK}, "
            "which reads files; give --train and --dev"
        )
    if not train:
        raise InputError(
            f"--task={TEXT_TASK} requires --train, and --dev for scores"
        )
    columns = {
        "text": config.text_column,
        "pair": config.pair_column,
        "label": config.label_column,
        "id": config.id_column,
    }
    return text_task_config(
        text_task_from_columns(
            [str(file) for file in train],
            {name: x for name, x in columns.items() if x is not None},
            header=config.header,
            classes=config.classes,
            number=config.regression,
            on_bad_example=config.on_bad_example,
        )
    )
