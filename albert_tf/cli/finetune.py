r"""Fine-tune a model on a task: labels, options, answers or entities.

The same command, given again, resumes a run that stopped.

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
    load_task_module,
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

# The task that only the user's own tables, and these flags, define.
_OWN = "text"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFlags(SourceFlags):
    """The task and its examples."""

    task: str = dataclasses.field(
        metadata=described(
            f"What to learn: {', '.join(known_tasks())}, or a task of "
            f"--task_module; {_OWN}: labels, or numbers, of your own texts. "
            "Required.",
            group=MODEL,
        )
    )
    task_module: str | None = setting(
        None, "Python file that registers task types of your own.", group=MODEL
    )
    train: str | None = setting(
        None,
        "Files to train on instead, separated by commas; or, with --from, "
        "splits, such as train[:90%].",
        group=EXAMPLES,
    )
    dev: str | None = setting(
        None,
        "Files, or splits, to evaluate on instead, separated by commas.",
        group=EXAMPLES,
    )
    text_column: str | int = setting(
        "text",
        f"{_OWN}: column of the text: its name, or its number from 0.",
        group=EXAMPLES,
        parse=column,
    )
    pair_column: str | int | None = setting(
        None,
        f"{_OWN}: column of a second text.",
        group=EXAMPLES,
        parse=column,
    )
    label_column: str | int = setting(
        "label",
        f"{_OWN}: column of the label.",
        group=EXAMPLES,
        parse=column,
    )
    id_column: str | int | None = setting(
        None,
        f"{_OWN}: column of an ID; without, rows are numbered.",
        group=EXAMPLES,
        parse=column,
    )
    header: bool | None = setting(
        None,
        f"{_OWN}: whether files begin with the names of their columns; "
        "without, they do if a column is given by its name.",
        group=EXAMPLES,
    )
    classes: Sequence[str] | None = setting(
        None,
        f"{_OWN}: the labels, in order; without, those of the training files.",
        group=EXAMPLES,
    )
    regression: bool = setting(
        False, f"{_OWN}: labels are numbers, to be predicted.", group=EXAMPLES
    )
    metrics: Sequence[str] | None = setting(
        None,
        "Scores; the first decides which weights are the best: accuracy, f1, "
        "matthews, or pearson, spearman; of token classification f1, "
        "precision, recall, accuracy. The default is the task's.",
        group=EXAMPLES,
    )
    runs: int = setting(
        1,
        "Runs with seeds from --seed on, in folders run-0, run-1 and so on; "
        "their median is reported.",
        group=LENGTH,
        bounds="[1, 1000]",
    )


CONFIGS = (TaskFlags, TaskSettings, FinetuneConfig)


def main(flags: CommandFlags) -> None:
    """Runs the fine-tuning that the flags describe."""
    if flags.given("num_warmup_steps") and flags.given("warmup_proportion"):
        raise InputError(
            "give either --num_warmup_steps or --warmup_proportion"
        )
    if flags.given("num_train_steps") and flags.given("num_train_epochs"):
        raise InputError("give either --num_train_epochs or --num_train_steps")
    given = flags.build(TaskFlags)
    if given.task_module is not None:
        load_task_module(given.task_module)
    own = ("text_column", "pair_column", "label_column", "id_column")
    foreign = flags.given(*own, "header", "classes", "regression")
    if foreign and given.task != _OWN:
        raise InputError(
            f"--{foreign[0]} requires --task={_OWN}; the columns of "
            f"{given.task} are known"
        )
    config = flags.build(FinetuneConfig)
    settings = dataclasses.asdict(flags.build(TaskSettings))
    task_config, train, dev = _task_and_sources(given, settings)
    # Now: help, wrong flags and wrong columns need not wait for TensorFlow.
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
    """Returns the task, and what its two splits are read from."""
    train: list[Source] = [*split_patterns(given.train or ())]
    dev: list[Source] = [*split_patterns(given.dev or ())]
    if not given.from_library and bool(given.data) == bool(train):
        raise InputError("give either --data or --train, and --dev with it")
    if given.task == _OWN:
        if given.from_library:
            raise InputError(
                f"--from={given.source} has known tasks only; --task={_OWN} "
                "needs files"
            )
        if not train:
            raise InputError(
                f"--task={_OWN} requires --train, and --dev to be scored on"
            )
        task_config = _own_task(given, [str(file) for file in train])
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


def _own_task(given: TaskFlags, train: list[str]) -> TaskConfig:
    """Returns the task that the flags make of the user's own tables."""
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
