r"""Fine-tune a model on a task: labels, options, answers or entities.

Repeating the command resumes a run that was interrupted.

Examples:
  albert finetune --task=text --train=train.csv --dev=dev.csv \
      --init_from=albert/albert-base-v2 --output=reviews
  albert finetune --recipe=finetune/sst2 --data=glue \
      --init_from=albert/albert-base-v2 --output=sst2
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.task_flags import SourceFlags, column
from albert_tf.errors import InputError
from albert_tf.files import split_patterns
from albert_tf.finetuning.config import FinetuneConfig
from albert_tf.finetuning.data import Source, find_split, read_examples
from albert_tf.finetuning.examples import BadExamples
from albert_tf.finetuning.registry import (
    known_task,
    known_tasks,
    make_task_type,
    with_metrics,
    with_settings,
)
from albert_tf.finetuning.task_config import TaskConfig, TaskSettings
from albert_tf.finetuning.task_type import TaskType
from albert_tf.finetuning.text_classification.examples import (
    text_task_from_columns,
)
from albert_tf.finetuning.text_classification.task import text_task_config
from albert_tf.quiet_import import import_tensorflow
from albert_tf.settings import (
    EXAMPLES,
    LENGTH,
    MODEL,
    described,
    setting,
)

# The task of the user's own tables, which the flags describe.
_TEXT_TASK = "text"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFlags(SourceFlags):
    """Flags for the task and its examples."""

    task: str = dataclasses.field(
        metadata=described(
            f"The task: {', '.join(known_tasks())}, a task of --task_module, "
            f"or {_TEXT_TASK}: labels or numbers of your own texts. Required.",
            group=MODEL,
        )
    )
    train: str | None = setting(
        None,
        "Files to train on, separated by commas; with --from, splits, such as "
        "train[:90%].",
        group=EXAMPLES,
    )
    dev: str | None = setting(
        None,
        "Files, or splits, to evaluate on, separated by commas.",
        group=EXAMPLES,
    )
    text_column: str | int = setting(
        "text",
        f"{_TEXT_TASK}: column of the text: its name, or its number from 0.",
        group=EXAMPLES,
        parse=column,
    )
    pair_column: str | int | None = setting(
        None,
        f"{_TEXT_TASK}: column of a second text.",
        group=EXAMPLES,
        parse=column,
    )
    label_column: str | int = setting(
        "label",
        f"{_TEXT_TASK}: column of the label.",
        group=EXAMPLES,
        parse=column,
    )
    id_column: str | int | None = setting(
        None,
        f"{_TEXT_TASK}: column of an ID. Default: the number of the row.",
        group=EXAMPLES,
        parse=column,
    )
    header: bool | None = setting(
        None,
        f"{_TEXT_TASK}: whether files begin with the names of their columns. "
        "Default: true if a column is given by name.",
        group=EXAMPLES,
    )
    classes: Sequence[str] | None = setting(
        None,
        f"{_TEXT_TASK}: the labels, in order. Default: those of the training "
        "files.",
        group=EXAMPLES,
    )
    regression: bool = setting(
        False,
        f"{_TEXT_TASK}: the labels are numbers (regression).",
        group=EXAMPLES,
    )
    metrics: Sequence[str] | None = setting(
        None,
        "Metrics; the first selects the best weights: accuracy, f1, matthews; "
        "for regression pearson, spearman; for token classification f1, "
        "precision, recall, accuracy. Default: the task's metrics.",
        group=EXAMPLES,
    )
    runs: int = setting(
        1,
        "Number of runs, with consecutive seeds from --seed, in folders run-0, "
        "run-1, ...; reports their median.",
        group=LENGTH,
        bounds="[1, 1000]",
    )


CONFIGS = (TaskFlags, TaskSettings, FinetuneConfig)


def main(flags: CommandFlags) -> None:
    """Fine-tunes a model and prints a summary."""
    flags.choose("num_warmup_steps", "warmup_proportion")
    flags.choose("num_train_epochs", "num_train_steps")
    if not flags.changed("from"):
        flags.choose("data", "train")
    given = flags.build(TaskFlags)
    given.load_task_module()
    columns = ("text_column", "pair_column", "label_column", "id_column")
    text_only = flags.changed(*columns, "header", "classes", "regression")
    if text_only and given.task != _TEXT_TASK:
        raise InputError(
            f"--{text_only[0]} requires --task={_TEXT_TASK}; the columns of "
            f"{given.task} are known"
        )
    config = flags.build(FinetuneConfig)
    settings = dataclasses.asdict(flags.build(TaskSettings))
    task_config, train, dev = _task_and_sources(given, settings)
    # Only now, so that errors in flags and columns do not wait for TensorFlow.
    import_tensorflow()
    from albert_tf.finetuning.data import TaskFiles
    from albert_tf.finetuning.train import finetune_runs

    started = time.monotonic()
    result = finetune_runs(
        config,
        task_config,
        TaskFiles(train=train, dev=dev, on_bad_example=given.on_bad_example),
        runs=given.runs,
        run_files={"flags.txt": flags.as_text()},
    )
    if result.interrupted:
        return
    print(result.summary())
    minutes = (time.monotonic() - started) / 60
    print(f"wrote {config.output} in {minutes:.1f} minutes")


def _task_and_sources(
    given: TaskFlags, settings: Mapping[str, Any]
) -> tuple[TaskConfig, list[Source], list[Source]]:
    """Returns the task, and the sources of its two splits."""
    train: list[Source] = [*split_patterns(given.train or ())]
    dev: list[Source] = [*split_patterns(given.dev or ())]
    if not given.from_library and bool(given.data) == bool(train):
        raise InputError("give either --data or --train, and --dev with it")
    if given.task == _TEXT_TASK:
        if given.from_library:
            raise InputError(
                f"--from={given.source} does not support --task={_TEXT_TASK}, "
                "which reads files; give --train and --dev"
            )
        if not train:
            raise InputError(
                f"--task={_TEXT_TASK} requires --train, and --dev for scores"
            )
        task_config = _text_task(given, [str(file) for file in train])
    else:
        task_config = known_task(given.task)
    task_type = make_task_type(with_settings(task_config, settings))

    def split(name: str) -> Source:
        return find_split(task_type, name, source=given.source, data=given.data)

    if given.from_library:
        train = [split(str(name)) for name in train or ["train"]]
        dev = [split(str(name)) for name in dev or ["dev"]]
    elif given.data:
        train, dev = [split("train")], dev or [split("dev")]
    task_config = task_type.learn_labels(
        _training_examples(task_type, train, given.on_bad_example)
    )
    if given.metrics:
        task_config = with_metrics(task_config, given.metrics)
    return task_config, train, dev


def _text_task(given: TaskFlags, train: list[str]) -> TaskConfig:
    """Returns the task of the user's own tables."""
    columns = {
        "text": given.text_column,
        "pair": given.pair_column,
        "label": given.label_column,
        "id": given.id_column,
    }
    return text_task_config(
        text_task_from_columns(
            train,
            {name: x for name, x in columns.items() if x is not None},
            header=given.header,
            classes=given.classes,
            number=given.regression,
            on_bad_example=given.on_bad_example,
        )
    )


def _training_examples(
    task_type: TaskType, train: list[Source], on_bad_example: str
) -> Iterator[Any]:
    """Yields the training examples."""
    bad = BadExamples(on_bad_example)
    for source in train:
        yield from read_examples(task_type, source, bad=bad, labelled=True)
