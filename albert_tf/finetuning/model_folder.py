"""Folders of fine-tuned models: `save_pretrained` and `task.json`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.config import check_positions, warn_of_untrained_positions
from albert_tf.errors import InputError
from albert_tf.finetuning.example_texts import text_ranks
from albert_tf.finetuning.registry import make_task_type, with_settings
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.task_type import TaskType
from albert_tf.input_files import check_not_web_address, exists, read_text
from albert_tf.interop.checkpoint import Vocabulary
from albert_tf.interop.huggingface import CONFIG_FILE
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.interop.run_folder import (
    TASK_FILE,
    fine_tuned_model,
    is_run_folder,
)
from albert_tf.models.base import AlbertModel
from albert_tf.models.pretrained import (
    checkpoint_of,
    tokenizer_of,
    write_pretrained,
)
from albert_tf.pretrained_models import packaged_names

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """The folder of a fine-tuned model whose weights are not loaded yet."""

    path: pathlib.Path
    task_config: TaskConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinetunedModel:
    """A fine-tuned model, its folder, and its task with the tokenizer."""

    folder: ModelFolder
    task_type: TaskType
    model: AlbertModel


def save_model(
    folder: Path, model: AlbertModel, task_type: TaskType, task: TaskConfig
) -> None:
    """Saves a model for `load_model`, `from_pretrained` and `albert export`.

    `task` has the model's scores; `task_type` has the tokenizer.
    """
    model.vocabulary = Vocabulary(task_type.tokenizer)
    write_pretrained(checkpoint_of(model), folder, {TASK_FILE: task.to_json()})


def open_model_folder(path: Path | ModelFolder) -> ModelFolder:
    """Finds a fine-tuned model and reads its task.

    Args:
      path: folder of the model or of its run; for several runs, the best run is
        used. A `ModelFolder` is returned unchanged.

    Raises:
      InputError: if there is no fine-tuned model, or its task cannot be read.
    """
    if isinstance(path, ModelFolder):
        return path
    folder = fine_tuned_model(path)
    if folder is None:
        check_not_web_address(
            path,
            "the folder of a finished `albert finetune`, which starts from "
            "--init_from=albert/albert-base-v2, for example",
        )
        name = os.fspath(path)
        todo = "give the folder of a finished `albert finetune` run"
        has_config = pathlib.Path(name, CONFIG_FILE).exists()
        if name in packaged_names() or (has_config and not is_run_folder(name)):
            todo = (
                f"fine-tune it with `albert finetune --init_from={name}`, and "
                "give the folder of that run"
            )
        what = f"no fine-tuned model (no {TASK_FILE})"
        if not exists(name):
            what = "no such file or folder"
        raise InputError(f"{name}: {what}; {todo}")
    file = folder / TASK_FILE
    task_config = TaskConfig.from_json(read_text(file), os.fspath(file))
    return ModelFolder(path=folder, task_config=task_config)


def open_model_folders(
    paths: Sequence[Path | ModelFolder],
) -> dict[str, ModelFolder]:
    """Returns the folders of an ensemble by path, without loading the models.

    Raises:
      InputError: if there is no model, a model is given twice, or the models
        cannot form an ensemble.
    """
    names = [
        os.fspath(x.path if isinstance(x, ModelFolder) else x) for x in paths
    ]
    opened = list(map(open_model_folder, paths))
    if not opened:
        raise InputError("no model is given; give the folder of one")
    if len({os.path.realpath(x.path) for x in opened}) != len(opened):
        raise InputError(f"model={','.join(names)}: a model is given twice")
    if len(opened) > 1:
        _check_ensemble(names, [x.task_config for x in opened])
    return dict(zip(names, opened, strict=True))


def _check_ensemble(names: Sequence[str], tasks: Sequence[TaskConfig]) -> None:
    """Checks that models have the same task, whose predictions have a mean."""
    found = []
    for task in tasks:
        task_type = make_task_type(task)
        if not task_type.has_ensembles:
            raise InputError(
                f"model={','.join(names)}: several models of the task "
                f"{task.name} cannot be averaged; give one model"
            )
        facts = {x: getattr(task, x) for x in ("task_type", "name", "labels")}
        found.append(facts | {"texts": ",".join(text_ranks(task_type))})
    for name, facts in zip(names, found, strict=True):
        for field, theirs in facts.items():
            ours = found[0][field]
            if ours != theirs:
                raise InputError(
                    f"model={name}: its task has {field}={theirs}, but "
                    f"{names[0]} has {field}={ours}; the models of an ensemble "
                    "must have the same task"
                )


def load_model(
    path: Path | ModelFolder,
    changes: Mapping[str, Any] | None = None,
    *,
    packed: bool = True,
) -> FinetunedModel:
    """Loads a fine-tuned model; call it in the strategy's scope.

    Args:
      path: see `open_model_folder`.
      changes: settings of the task to override, see `with_settings`.

    Raises:
      InputError: if there is no fine-tuned model, or it has no tokenizer.
    """
    folder = open_model_folder(path)
    task_config = with_settings(folder.task_config, changes or {})
    checkpoint = open_checkpoint(folder.path)
    task_type = make_task_type(
        task_config, tokenizer_of(checkpoint, folder.path)
    )
    if (length := (changes or {}).get("max_seq_length")) is not None:
        check_positions(checkpoint.config, length, "max_seq_length")
    if checkpoint.head.multi_label:
        raise InputError(
            f"{folder.path}: a multi-label model (problem_type in its "
            "config.json), which Predictor and the commands do not support; "
            "load it with AlbertClassifier, and take the sigmoid of its logits"
        )
    model = task_type.model_class.from_checkpoint(
        checkpoint, packed=packed, **task_type.model_arguments()
    )
    warn_of_untrained_positions(checkpoint.config, task_type.max_seq_length)
    return FinetunedModel(folder=folder, task_type=task_type, model=model)
