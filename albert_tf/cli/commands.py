"""The commands, their flags and the packaged recipes."""

from __future__ import annotations

import importlib
import importlib.resources
from types import ModuleType
from typing import TYPE_CHECKING

from albert_tf.cli.flags import CommandFlags
from albert_tf.errors import InputError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# Descriptions of the commands. The module of a command, albert_tf.cli.<command
# with _>, defines:
#   CONFIGS: dataclasses whose described fields are the flags,
#   DEFAULTS: optional, defaults that differ from those of the fields, by flag,
#   TAKES_ARGUMENTS: optional, whether there are positional arguments,
#   main(flags): runs the command. It imports what takes seconds, such as
#     TensorFlow, for which help and flag errors need not wait.
COMMANDS = {
    "train-vocab": "train a vocabulary on your text",
    "create-data": "make pretraining records from text",
    "convert-data": "convert records to arrays, for JAX without TensorFlow",
    "pretrain": "train MLM and sentence order, or resume a run",
    "finetune": "train on GLUE, SQuAD, RACE, entities, your own tables",
    "predict": "predict with fine-tuned models",
    "fill-mask": "fill in masked words with a pretrained model",
    "embed": "compute vectors of texts, or compare two texts",
    "serve": "serve a model over HTTP, with a page to try it",
    "sentence-order": "predict whether passages are in order",
    "evaluate": "score pretraining runs, or fine-tuned models",
    "convert": "convert from and to Google, Hugging Face, KerasHub",
    "export": "write SavedModels, LiteRT, ONNX and OpenVINO models",
    "analyze": "analyze parameters, memory, runs, data, attention",
    "ablate": "reproduce the paper's studies at a small size",
    "demo": "run all steps on a small corpus, in minutes",
    "completion": "print a shell completion script",
}


def command_module(command: str) -> ModuleType:
    """Imports the module of a command."""
    name = command.replace("-", "_")
    return importlib.import_module(f"albert_tf.cli.{name}")


def command_flags(command: str) -> CommandFlags:
    """Returns the flags of a command, unparsed."""
    module = command_module(command)
    return CommandFlags(
        *module.CONFIGS, defaults=getattr(module, "DEFAULTS", None)
    )


def recipe_names(command: str = "*") -> list[str]:
    """Returns the names of recipes of a command, such as "finetune/sst2"."""
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.flags')}"
        for folder in _recipe_folder().iterdir()
        if folder.is_dir() and command in ("*", folder.name)
        for file in folder.iterdir()
        if file.name.endswith(".flags")
    )


def recipe_file(name: str) -> str:
    """Returns the path of the flagfile of a packaged recipe."""
    path = _recipe_folder().joinpath(f"{name}.flags")
    if not path.is_file():
        raise InputError(
            f"unknown recipe {name!r}; choose one of "
            f"{', '.join(recipe_names())}"
        )
    return str(path)


def _recipe_folder() -> Traversable:
    return importlib.resources.files("albert_tf.official_configs") / "recipes"
