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

# Command -> what it does. Its module is albert_tf.cli.<command with _>:
#   CONFIGS: dataclasses whose described fields are its flags,
#   DEFAULTS: optional, flag name -> default where the field has another one,
#   TAKES_ARGUMENTS: optional, whether it takes arguments that are not flags,
#   main(flags): runs it.
COMMANDS = {
    "train-vocab": "train a vocabulary on your text",
    "create-data": "make pretraining records from text",
    "pretrain": "train MLM + sentence order, resume where it stopped",
    "finetune": "GLUE, SQuAD, RACE, named entities, your own tables",
    "predict": "predict with fine-tuned models",
    "fill-mask": "fill in masked words with a pretrained model",
    "embed": "turn texts into vectors, or compare two",
    "sentence-order": "tell whether passages are in order",
    "evaluate": "score pretraining runs, or fine-tuned models",
    "convert": "checkpoints from and to Google, Hugging Face, KerasHub",
    "export": "write SavedModels, LiteRT, ONNX and OpenVINO models",
    "analyze": "parameters, memory, runs, data, layers, attention",
    "ablate": "repeat the paper's studies at a small size",
    "demo": "all of it on a small corpus, in minutes",
    "completion": "print what completes these commands in your shell",
}


def command_module(command: str) -> ModuleType:
    """Returns the module of a command."""
    name = command.replace("-", "_")
    return importlib.import_module(f"albert_tf.cli.{name}")


def command_flags(command: str) -> CommandFlags:
    """Returns the flags of a command, not parsed yet."""
    module = command_module(command)
    return CommandFlags(
        *module.CONFIGS, defaults=getattr(module, "DEFAULTS", None)
    )


def recipe_names(command: str = "*") -> list[str]:
    """Returns the names of the packaged recipes, such as "finetune/sst2".

    Args:
      command: whose recipes; all, if it is not given.
    """
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.flags')}"
        for folder in _recipe_folder().iterdir()
        if folder.is_dir() and command in ("*", folder.name)
        for file in folder.iterdir()
        if file.name.endswith(".flags")
    )


def recipe_file(name: str) -> str:
    """Returns the flagfile of a packaged recipe."""
    path = _recipe_folder().joinpath(f"{name}.flags")
    if not path.is_file():
        raise InputError(
            f"unknown recipe {name!r}; choose one of "
            f"{', '.join(recipe_names())}"
        )
    return str(path)


def _recipe_folder() -> Traversable:
    return importlib.resources.files("albert_tf.official_configs") / "recipes"
