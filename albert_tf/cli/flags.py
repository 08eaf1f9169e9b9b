"""Command-line flags generated from the fields of config dataclasses."""

from __future__ import annotations

import collections
import difflib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

from albert_tf.cli.flagfiles import expand_flagfiles
from albert_tf.cli.migration import new_name
from albert_tf.errors import InputError
from albert_tf.settings import GROUPS, Setting, check_settings, settings_of

_NO_GROUP = "Flags"
# absl associates flags with a module.
_MODULE = "albert"

Config = TypeVar("Config")


class CommandFlags:
    """The flags of a command.

    Attributes:
      arguments: the positional arguments.
      settings: the setting of each flag, by the name of the flag.
    """

    def __init__(
        self, *configs: type, defaults: Mapping[str, Any] | None = None
    ):
        """Defines the flags: the described fields of dataclasses.

        A field that several of them define is one flag. `defaults`, by flag,
        take precedence over those of the fields.
        """
        self.arguments: list[str] = []
        self._values = flags.FlagValues()
        # Flag -> the position at which it is given last, and the flagfile it is
        # in ("" for the command line).
        self._places: dict[str, tuple[int, str]] = {}
        self._replaced: set[str] = set()
        self.settings: dict[str, Setting] = {}
        for config in configs:
            for declared in settings_of(config):
                name = declared.flag
                if name is None or name in self.settings:
                    continue
                self.settings[name] = declared
                default = (defaults or {}).get(name, declared.default)
                if declared.description.parse and not isinstance(default, str):
                    default = None
                text = declared.description.help
                self._define(name, default, text, declared)
        self._define("debug", False, "Show the traceback of an error.")

    def _define(
        self,
        name: str,
        default: Any,
        text: str,
        declared: Setting | None = None,
    ) -> None:
        """Defines a flag; a Boolean one if no setting is given."""
        is_switch = declared is None or declared.type is bool
        # Values with a parser of their own stay text until `build`.
        is_list = (
            declared is not None
            and _is_list(declared.type)
            and declared.description.parse is None
        )
        flag = flags.Flag(
            _Parser(name, _parser(declared)),
            flags.CsvListSerializer(",")
            if is_list
            else flags.ArgumentSerializer(),
            name,
            default,
            text,
            boolean=is_switch,
        )
        flags.DEFINE_flag(flag, flag_values=self._values, module_name=_MODULE)

    def parse(self, command: str, arguments: Sequence[str]) -> None:
        """Parses a command line, including flagfiles."""
        located = list(expand_flagfiles(arguments))
        expanded = [argument for argument, _ in located]
        try:
            # With unknown flags, which are reported together.
            rest = self._values([f"albert {command}", *expanded], True)[1:]
        except (flags.Error, ValueError) as error:
            # For an invalid value, it is the `InputError` of `_Parser`.
            cause = error.__context__
            if isinstance(cause, InputError):
                raise cause from None
            text = str(error).replace(
                "Missing value for flag ", "no value for "
            )
            raise InputError(text) from None
        # Otherwise absl holds back log messages until its own flags are parsed.
        flags.FLAGS.mark_as_parsed()
        end = rest.index("--") if "--" in rest else len(rest)
        unknown = [x for x in rest[:end] if x.startswith("-") and x.strip("-")]
        if unknown:
            problems = (
                self._unknown(command, argument) for argument in unknown
            )
            raise InputError("; ".join(dict.fromkeys(problems)))
        self.arguments = rest[:end] + rest[end + 1 :]
        self._places = {
            argument.lstrip("-").partition("=")[0]: (position, file)
            for position, (argument, file) in enumerate(located)
            if argument.startswith("-")
        }
        missing = [
            f"--{name}"
            for name, declared in self.settings.items()
            if declared.required and self._values[name].value is None
        ]
        if missing:
            are = "is" if len(missing) == 1 else "are"
            *first, last = missing
            names = f"{', '.join(first)} and {last}" if first else last
            raise InputError(f"{names} {are} required")

    def _unknown(self, command: str, argument: str) -> str:
        """Returns the error message for an unknown flag."""
        name = argument.lstrip("-").partition("=")[0]
        if known := new_name(command, name):
            return known
        close = difflib.get_close_matches(name, self.settings, 1)
        hint = f" (did you mean --{close[0]}?)" if close else ""
        return f"unknown flag --{name}{hint}"

    def build(self, config: type[Config], **others: Any) -> Config:
        """Creates a config, one of those that define flags, from their values.

        `others` are the values of fields that are not flags.
        """
        values = {}
        for declared in settings_of(config):
            if declared.flag is None or declared.name in others:
                continue
            value = self._values[declared.flag].value
            parse = declared.description.parse
            if parse is None:
                values[declared.name] = value
            elif value is not None:
                values[declared.name] = parse(value)
        built = config(**values, **others)
        check_settings(built)
        return built

    def given(self, *names: str) -> list[str]:
        """Returns which of the named flags are on the command line."""
        return [name for name in names if self._values[name].present]

    def changed(self, *names: str) -> list[str]:
        """Returns which of the named flags do not have their defaults."""
        return [
            name
            for name in names
            if self._values[name].value != self._values[name].default
        ]

    def choose(self, *names: str) -> None:
        """Of flags that exclude each other, keeps the one that is given last.

        A flag replaces its alternatives in recipes and flagfiles before it;
        they get their defaults. A flag whose default means that it is not set
        (0 or None) can be set to it beside the others, and so can any flag in a
        flagfile, since those of runs list all defaults. Two of them in the same
        place are an `InputError`.
        """
        given = [
            name
            for name in self.given(*names)
            if self.changed(name) or self._values[name].default
        ]
        if not given:
            return
        file_of = {name: self._places[name][1] for name in given}
        changed_in = {file_of[name] for name in self.changed(*given)} - {""}
        given = [
            name
            for name in given
            if self.changed(name) or file_of[name] not in changed_in
        ]
        *replaced, last = sorted(given, key=self._places.__getitem__)
        for name in replaced:
            if file_of[name] == file_of[last]:
                raise InputError(f"give either --{name} or --{last}, not both")
            self._values[name].value = self._values[name].default
        self._replaced.update(set(names) - {last})

    def as_text(self) -> str:
        """Returns the values of all flags as a flagfile.

        The alternatives that `choose` did not choose are left out.
        """
        lines = self._values.flags_into_string().splitlines(keepends=True)
        replaced = tuple(f"--{name}=" for name in self._replaced)
        return "".join(x for x in lines if not x.startswith(replaced))

    @property
    def debug(self) -> bool:
        """Whether to show tracebacks."""
        return self._values.is_parsed() and bool(self._values["debug"].value)

    def help(self) -> str:
        """Returns the help of all flags, by group."""
        groups: dict[str, list[str]] = {title: [] for title in ("", *GROUPS)}
        for name, declared in self.settings.items():
            groups.setdefault(declared.description.group, []).append(name)
        lines: list[str] = []
        for title, group in groups.items():
            if group:
                lines += [f"{title or _NO_GROUP}:", *self._lines(group), ""]
        return "\n".join(lines).rstrip()

    def _lines(self, names: Sequence[str]) -> Iterator[str]:
        """Yields the help of flags, required ones first."""
        for name in sorted(
            names, key=lambda name: not self.settings[name].required
        ):
            flag = self._values[name]
            prefix = "[no]" if flag.boolean else ""
            text = f"--{prefix}{name}: {flag.help}"
            notes = []
            choices = self.settings[name].named_choices
            words = set(re.findall(r"[\w.-]*\w", flag.help))
            if not words.issuperset(choices):
                notes.append(f"one of {', '.join(choices)}")
            # Show a default of 0, but not of False, which equals 0.
            if flag.default or flag.default == 0 and not flag.boolean:
                notes.append(f"default: {_text(flag.default)}")
            if notes:
                text += f" ({'; '.join(notes)})"
            yield flags.text_wrap(
                text, 80, indent=" " * 6, firstline_indent="  "
            )


class _Parser(flags.ArgumentParser):
    """Parses the value of a flag, with our own error messages."""

    def __init__(self, name: str, parse: Callable[[str], Any]):
        self._name = name
        self._parse = parse

    def parse(self, argument: Any) -> Any:
        """Parses text; a default is a value already."""
        if not isinstance(argument, str):
            return argument
        try:
            return self._parse(argument)
        except ValueError as error:
            raise InputError(f"--{self._name}={argument} {error}") from None


def _parser(declared: Setting | None) -> Callable[[str], Any]:
    """Returns the function that parses the text of a flag."""
    if declared is None or declared.type is bool:
        return _boolean
    if declared.description.parse:
        # Parsed by `build`. Until then on one line, to fit into a flagfile.
        return lambda text: " ".join(text.splitlines())
    if declared.choices:
        return lambda text: _choice(text, declared)
    if declared.type in _NUMBERS:
        return lambda text: _number(text, declared.type)
    if _is_list(declared.type):
        return flags.ListParser().parse
    return str


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "t", "1"):
        return True
    if text.lower() in ("false", "f", "0"):
        return False
    raise ValueError("must be true or false")


def _choice(text: str, declared: Setting) -> str:
    if text in declared.choices:
        return text
    raise ValueError(f"must be one of {', '.join(declared.named_choices)}")


_NUMBERS = {int: "an integer", float: "a number"}


def _number(text: str, kind: Any) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"must be {_NUMBERS[kind]}") from None


def _is_list(annotation: Any) -> bool:
    """Whether a type is a sequence of strings, and only that."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return all(map(_is_list, typing.get_args(annotation)))
    return typing.get_origin(annotation) in (collections.abc.Sequence, tuple)


def _text(default: Any) -> str:
    if isinstance(default, (list, tuple)):
        return ",".join(default)
    return str(default)


def require_flags(needed: Mapping[str, Sequence[str]], config: Any) -> None:
    """Checks flags that require at least one of others.

    `needed` has their fields, which are None in `config` if a flag is not
    given.
    """
    for name, others in needed.items():
        if getattr(config, name) is None:
            continue
        if all(getattr(config, other) is None for other in others):
            names = {x.name: x.flag for x in settings_of(type(config))}
            wanted = " or ".join(f"--{names[other]}" for other in others)
            raise InputError(f"--{names[name]} requires {wanted}")
