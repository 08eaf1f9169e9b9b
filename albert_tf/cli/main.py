"""`albert COMMAND --flags`: commands, their help and their errors."""

from __future__ import annotations

import importlib
import importlib.resources
import os
import sys
from collections.abc import Sequence

from absl import flags as absl_flags

from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.quiet_import import import_tensorflow
from albert_tf.errors import InputError

# Command -> what it does. Its module is albert_tf.cli.<command with _>:
#   CONFIGS: dataclasses whose described fields are its flags,
#   DEFAULTS: optional, flag name -> default where the field has another one,
#   TAKES_ARGUMENTS: optional, whether it takes arguments that are not flags,
#   main(flags): runs it.
COMMANDS = {
    "train-vocab": "train a SentencePiece vocabulary on your text",
    "create-data": "make pretraining records from text",
    "pretrain": "train MLM + sentence order, resume where it stopped",
    "finetune": "GLUE, SQuAD, RACE, named entities, your own tables",
    "predict": "predict with fine-tuned models",
    "evaluate": "score pretraining runs, or fine-tuned models",
    "convert": "checkpoints from and to Google, Hugging Face, KerasHub",
    "export": "write TF-Hub SavedModels: encoder and preprocessor",
    "analyze": "parameters and memory of configs, scores and curves of runs",
    "demo": "all of it on a small corpus, in minutes",
}

# These run without TensorFlow, which takes seconds to import, or import it
# when they need it.
_LIGHT = ("train-vocab", "analyze", "finetune", "predict")

_BAD_INPUT, _FAILED = 2, 1


def run(argv: Sequence[str] | None = None) -> None:
    """Runs a command and exits: 0, 1 (it failed) or 2 (bad input)."""
    try:
        status = main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed it. Python must
        # not fail once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = _FAILED
    sys.exit(status)


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if arguments else _BAD_INPUT
    command, *rest = arguments
    if command not in COMMANDS:
        return _complain(
            f"unknown command {command!r}; choose one of {', '.join(COMMANDS)}",
            _BAD_INPUT,
        )
    module = importlib.import_module(
        f"albert_tf.cli.{command.replace('-', '_')}"
    )
    flags = CommandFlags(
        *module.CONFIGS, defaults=getattr(module, "DEFAULTS", None)
    )
    if {"-h", "--help", "--helpshort"} & set(rest):
        text = (module.__doc__ or "").strip()
        print(f"albert {command}: {text}\n\n{flags.help()}")
        return 0
    try:
        flags.parse(command, _expand_recipes(rest))
        if flags.arguments and not getattr(module, "TAKES_ARGUMENTS", False):
            raise InputError(f"unexpected argument {flags.arguments[0]!r}")
        if command not in _LIGHT:
            import_tensorflow()
        module.main(flags)
    except KeyboardInterrupt:
        return _complain("interrupted", _FAILED)
    except (InputError, absl_flags.Error) as error:
        return _report(command, error, _BAD_INPUT, flags.debug)
    except Exception as error:
        return _report(command, error, _FAILED, flags.debug)
    return 0


def _expand_recipes(arguments: Sequence[str]) -> list[str]:
    """Replaces --recipe=NAME by the flagfile of that packaged recipe."""
    expanded = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in ("--recipe", "-recipe"):
            argument = (
                f"--flagfile={_recipe(value if equals else next(rest, ''))}"
            )
        expanded.append(argument)
    return expanded


def _recipe(name: str) -> str:
    root = importlib.resources.files("albert_tf.official_configs") / "recipes"
    path = root.joinpath(f"{name}.flags")
    if not path.is_file():
        known = sorted(
            f"{folder.name}/{file.name.removesuffix('.flags')}"
            for folder in root.iterdir()
            if folder.is_dir()
            for file in folder.iterdir()
            if file.name.endswith(".flags")
        )
        raise InputError(
            f"unknown recipe {name!r}; choose one of {', '.join(known)}"
        )
    return str(path)


def _report(command: str, error: Exception, status: int, debug: bool) -> int:
    if debug:
        raise error
    text = " ".join(str(error).split()) or type(error).__name__
    if status == _FAILED:
        text = f"{type(error).__name__}: {text} (--debug shows the traceback)"
    return _complain(f"{command}: {text}", status)


def _complain(text: str, status: int) -> int:
    print(f"albert: {text}", file=sys.stderr)
    return status


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: albert COMMAND [--flags]",
            "",
            *lines,
            "",
            "`albert COMMAND --help` lists the flags of a command. Any of them",
            "can stand in a file: --flagfile=FILE, or --recipe=NAME for one of",
            "the packaged recipes; later flags win.",
        ]
    )
