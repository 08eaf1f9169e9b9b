"""The flag that says where the data of a task come from."""

from __future__ import annotations

from absl import flags

from albert_tf.data.examples.named_sources import SOURCES
from albert_tf.tasks.finetuning.task_files import FILES

FROM = flags.DEFINE_enum(
    "from",
    FILES,
    [FILES, *SOURCES],
    "Where the task's data come from: files as they are distributed; or "
    "TensorFlow Datasets, or Hugging Face's datasets, by the task's name: "
    "--data is then optional, a folder that has them.",
)


def by_name() -> bool:
    """Whether a library has the data."""
    return FROM.value != FILES
