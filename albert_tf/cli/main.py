"""`albert COMMAND --flags`: finds the command, its flags and its errors."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import os
import sys
from collections.abc import Sequence

from absl import flags

from albert_tf.cli.flag_help import flag_help
from albert_tf.cli.quiet_import import import_tensorflow
from albert_tf.errors import InputError

# Command -> what it does. Its module is albert_tf.cli.<command with _>, with
# flags defined on import, a function main(), or main(arguments), and perhaps
# FLAG_GROUPS, see `flag_help`.
COMMANDS = {
    "train-vocab": "train a SentencePiece vocabulary on your text",
    "create-data": "make pretraining records from text",
    "pretrain": "train MLM + sentence order, resume where it stopped",
    "finetune": "GLUE, SQuAD, RACE, named entities, your own tables",
    "predict": "what fine-tuned models say of new texts",
    "evaluate": "score pretraining runs, or fine-tuned models",
    "convert": "checkpoints from and to Google, Hugging Face, KerasHub",
    "export": "write TF-Hub SavedModels: encoder and preprocessor",
    "analyze": "parameters and memory of configs, scores and curves of runs",
    "demo": "all of it on a small corpus, in minutes",
}

# These do without TensorFlow, which takes seconds to import, or import it if
# they need it.
_LIGHT = ("train-vocab", "analyze", "finetune", "predict")

_BAD_INPUT, _FAILED = 2, 1

flags.DEFINE_boolean(
    "debug",
    False,
    "Show the whole traceback of an error.",
    module_name="albert",
)


def run(argv: Sequence[str] | None = None) -> None:
    """Runs a command and exits: 0, 1 (it failed) or 2 (bad input)."""
    try:
        status = main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output, such as `head`, has enough of it. Python must
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
    if {"-h", "--help", "--helpshort"} & set(rest):
        print(f"albert {command}: {module.__doc__.strip()}\n")
        groups = getattr(module, "FLAG_GROUPS", None)
        print(flag_help(module.__name__, groups))
        return 0
    try:
        left = flags.FLAGS([f"albert {command}", *_expand_recipes(rest)])[1:]
        # Only commands with subjects take arguments that are not flags.
        takes_arguments = inspect.signature(module.main).parameters
        if left and not takes_arguments:
            raise InputError(f"unexpected argument {left[0]!r}")
        if command not in _LIGHT:
            import_tensorflow()
        module.main(*([left] if takes_arguments else []))
    except KeyboardInterrupt:
        return _complain("interrupted", _FAILED)
    except (InputError, flags.Error) as error:
        return _report(command, error, _BAD_INPUT)
    except Exception as error:
        return _report(command, error, _FAILED)
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


def _report(command: str, error: Exception, status: int) -> int:
    if "debug" in flags.FLAGS and _debugging():
        raise error
    text = " ".join(str(error).split()) or type(error).__name__
    if status == _FAILED:
        text = f"{type(error).__name__}: {text} (--debug shows the traceback)"
    return _complain(f"{command}: {text}", status)


def _debugging() -> bool:
    return flags.FLAGS.is_parsed() and flags.FLAGS["debug"].value


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
