"""Flags that name a task and the files of its examples."""

from __future__ import annotations

from absl import flags

from albert_tf.data.examples.bad_examples import POLICIES
from albert_tf.data.examples.own_table import text_task_from_columns
from albert_tf.errors import InputError
from albert_tf.path_patterns import split_patterns
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.known_tasks import KNOWN_TASKS, describe_texts

# The task that only its own tables, and these flags, describe.
OWN = "text"

TASK = flags.DEFINE_enum(
    "task",
    None,
    [*KNOWN_TASKS, OWN],
    f"What to learn; {OWN}: labels, or numbers, of your own texts.",
    required=True,
)
DATA = flags.DEFINE_string(
    "data",
    None,
    "Folder with the task's files as they are distributed, or the one above; "
    "see also --from.",
)
TRAIN = flags.DEFINE_string(
    "train",
    None,
    "Files to train on instead, separated by commas; or, with --from, splits, "
    "such as train[:90%].",
)
DEV = flags.DEFINE_string(
    "dev",
    None,
    "Files, or splits, to be scored on instead, separated by commas.",
)
TEXT_COLUMN = flags.DEFINE_string(
    "text_column",
    "text",
    f"{OWN}: column of the text; a number from 0 if there is no header.",
)
PAIR_COLUMN = flags.DEFINE_string(
    "pair_column", None, f"{OWN}: column of a second text."
)
LABEL_COLUMN = flags.DEFINE_string(
    "label_column", "label", f"{OWN}: column of the label."
)
ID_COLUMN = flags.DEFINE_string(
    "id_column", None, f"{OWN}: column of an ID; without, rows are numbered."
)
CLASSES = flags.DEFINE_list(
    "classes",
    None,
    f"{OWN}: the labels, in order; without, those of the training files.",
)
REGRESSION = flags.DEFINE_boolean(
    "regression", False, f"{OWN}: labels are numbers, to be predicted."
)
METRICS = flags.DEFINE_list(
    "metrics",
    None,
    "Scores, the one that decides which weights are the best first: accuracy, "
    "f1, matthews, or pearson, spearman; of words f1, precision, recall, "
    "accuracy. The default is the task's.",
)
ON_BAD_EXAMPLE = flags.DEFINE_enum(
    "on_bad_example",
    "stop",
    POLICIES,
    "Examples that cannot be used: stop, or skip, count and list them.",
)

_COLUMNS = ("text", "pair", "label", "id")


def own_task(train: list[str]) -> TaskDescription:
    """Returns the task that the flags make of somebody's own tables.

    Args:
      train: the tables to train on, in which labels are found.
    """
    task = text_task_from_columns(
        train,
        text=_column(TEXT_COLUMN.value),
        pair=_column(PAIR_COLUMN.value),
        label=_column(LABEL_COLUMN.value),
        id=_column(ID_COLUMN.value),
        classes=CLASSES.value,
        number=REGRESSION.value,
        on_bad_example=ON_BAD_EXAMPLE.value,
    )
    return describe_texts(task)


def check_own_flags() -> None:
    """Refuses flags of one's own tables with another task.

    Raises:
      InputError: names one.
    """
    if TASK.value == OWN:
        return
    own = [f"{name}_column" for name in _COLUMNS] + ["classes", "regression"]
    for name in own:
        if flags.FLAGS[name].present:
            raise InputError(
                f"--{name} goes with --task={OWN}; the columns of "
                f"{TASK.value} are known"
            )


def paths_of(flag: str | None) -> list[str]:
    """Returns the paths of a flag."""
    return list(split_patterns(flag)) if flag else []


def _column(name: str | None) -> str | int | None:
    return int(name) if name and name.isdecimal() else name
