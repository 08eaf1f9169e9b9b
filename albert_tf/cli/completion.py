"""Print a shell script that completes commands, flags and their values.

Takes the name of the shell: bash, zsh, fish, tcsh or powershell. Requires the
package shtab.

Examples:
  albert completion bash > ~/.local/share/bash-completion/completions/albert
  albert completion zsh > ~/.zfunc/_albert
"""

from __future__ import annotations

import argparse
from typing import Any

from albert_tf.cli.commands import COMMANDS, command_flags, recipe_names
from albert_tf.cli.flags import CommandFlags
from albert_tf.errors import InputError
from albert_tf.optional_packages import import_package

CONFIGS = ()
TAKES_ARGUMENTS = True


def main(flags: CommandFlags) -> None:
    """Prints the completion script of a shell."""
    shtab: Any = import_package("shtab", "completions")
    shells = shtab.SUPPORTED_SHELLS
    if len(flags.arguments) != 1 or flags.arguments[0] not in shells:
        raise InputError(f"name one shell: {', '.join(shells)}")
    print(shtab.complete(_parser(shtab.FILE), flags.arguments[0]))


def _parser(any_file: Any) -> argparse.ArgumentParser:
    """Returns an argparse parser of all commands, as shtab needs it.

    `any_file` is shtab's marker for values that may be paths.
    """
    parser = argparse.ArgumentParser(prog="albert")
    parser.add_argument("--version", action="store_true", help="Print versions")
    commands = parser.add_subparsers()
    for command, text in COMMANDS.items():
        subparser = commands.add_parser(command, help=text)
        recipes = recipe_names(command)
        if recipes:
            subparser.add_argument("--recipe", choices=recipes, help="Recipe")
        for name, declared in command_flags(command).settings.items():
            # Only the first sentence. argparse formats percent signs.
            text = declared.description.help.partition(". ")[0]
            text = text.rstrip(".").replace("%", "%%")
            if declared.type is bool:
                subparser.add_argument(
                    f"--{name}", f"--no{name}", action="store_true", help=text
                )
                continue
            choices = declared.named_choices or None
            added: Any = subparser.add_argument(
                f"--{name}", choices=choices, help=text
            )
            if choices is None and declared.type not in (int, float):
                added.complete = any_file
    return parser
