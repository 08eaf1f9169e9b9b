"""Folders of fine-tuned models: `save_pretrained` and `task.json`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.interop.formats.run_folder import TASK_FILE, fine_tuned_model
from albert_tf.interop.opening import open_checkpoint
from albert_tf.models.base import AlbertModel
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.kinds.base import TaskKind
from albert_tf.tasks.finetuning.kinds.by_name import make_kind
from albert_tf.tasks.finetuning.known_tasks import with_settings
from albert_tf.training.files import read_text, write_atomically


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetunedModel:
    """A model and the task it is for.

    Attributes:
      folder: where it was read.
      kind: the task, with the model's tokenizer.
      model: the model.
    """

    folder: pathlib.Path
    kind: TaskKind
    model: AlbertModel


def save_model(
    folder: str | os.PathLike[str],
    model: AlbertModel,
    kind: TaskKind,
    description: TaskDescription,
) -> None:
    """Writes what `load_model`, `from_pretrained` and `albert export` take.

    Args:
      folder: may exist.
      model: the model.
      kind: its task, with its tokenizer.
      description: of the task, with the scores.

    Raises:
      InputError: the folder cannot be written to.
    """
    model.save_pretrained(folder, kind.tokenizer)
    # Last: where it is, the folder is complete.
    write_atomically(os.path.join(folder, TASK_FILE), description.to_json())


def find_model(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the folder of a model.

    Args:
      path: that folder, or that of the run; of several runs, the best one's is
        taken.

    Raises:
      InputError: there is no fine-tuned model.
    """
    folder = fine_tuned_model(path)
    if folder is None:
        raise InputError(
            f"{os.fspath(path)}: no fine-tuned model (no {TASK_FILE}); give "
            "the folder of a finished `albert finetune`"
        )
    return folder


def read_description(folder: str | os.PathLike[str]) -> TaskDescription:
    """Returns the task of a model's folder.

    Raises:
      InputError: its `task.json` cannot be read.
    """
    path = os.path.join(os.fspath(folder), TASK_FILE)
    return TaskDescription.from_json(read_text(path), path)


def load_model(
    path: str | os.PathLike[str],
    changes: Mapping[str, Any] | None = None,
    *,
    packed: bool = True,
) -> FinetunedModel:
    """Loads a fine-tuned model; call it under the strategy's scope.

    Args:
      path: see `find_model`.
      changes: settings of the task to change, see `with_settings`.
      packed: see `AlbertEncoder`.

    Raises:
      InputError: there is none, or it has no tokenizer.
    """
    folder = find_model(path)
    description = with_settings(read_description(folder), changes or {})
    checkpoint = open_checkpoint(folder)
    if checkpoint.tokenizer is None:
        raise InputError(
            f"{folder} holds no tokenizer that can be used"
            f"{checkpoint.vocabulary.problem and ': '}"
            f"{checkpoint.vocabulary.problem}"
        )
    kind = make_kind(description, checkpoint.tokenizer)
    model = kind.model_class.from_checkpoint(
        checkpoint, packed=packed, **kind.model_arguments()
    )
    return FinetunedModel(folder=folder, kind=kind, model=model)
