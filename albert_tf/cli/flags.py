"""Command-line flags, generated from the fields of config dataclasses."""

from __future__ import annotations

import collections
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

from albert_tf.errors import InputError
from albert_tf.settings import GROUPS, Setting, settings_of

# Names of flags in version 0.1 -> names of today.
RENAMED_FLAGS = {
    "batch_size": "eval_batch_size",
    "predict_batch_size": "eval_batch_size",
    "random_seed": "seed",
}

# Flags of absl and TensorFlow that version 0.1 wrote into a run's flags.txt.
# They are ignored where a flagfile is given, and unknown elsewhere.
_FOREIGN_FLAGS = (
    *("only_check_args", "pdb", "pdb_post_mortem", "run_with_pdb"),
    *("run_with_profiling", "use_cprofile_for_profiling", "profile_file"),
    *("alsologtostderr", "logtostderr", "log_dir", "logger_levels"),
    *("showprefixforinfo", "stderrthreshold", "verbosity"),
    *("test_random_seed", "test_randomize_ordering_seed", "test_srcdir"),
    *("test_tmpdir", "xml_output_file", "hbm_oom_exit", "runtime_oom_exit"),
    *("op_conversion_fallback_to_while_loop", "delta_threshold"),
    *("tt_check_filter", "tt_single_core_summaries"),
)

_NO_GROUP = "Flags"
# Of absl: values have a module, by which `flags_into_string` sorts them.
_MODULE = "albert"

Config = TypeVar("Config")


class CommandFlags:
    """The flags of a command.

    Attributes:
      arguments: what is left of the command line after the flags.
    """

    def __init__(
        self,
        *configs: type,
        defaults: Mapping[str, Any] | None = None,
    ):
        """Defines the flags.

        Args:
          *configs: dataclasses whose described fields are the flags. A field
            that several of them have is one flag.
          defaults: flag name -> default, where it is not that of the field.
        """
        self.arguments: list[str] = []
        self._values = flags.FlagValues()
        self._settings: dict[str, Setting] = {}
        for config in configs:
            for declared in settings_of(config):
                name = declared.flag
                if name is None or name in self._settings:
                    continue
                self._settings[name] = declared
                default = (defaults or {}).get(name, declared.default)
                self._define(name, declared, default)
        flags.DEFINE_boolean(
            "debug",
            False,
            "Show the whole traceback of an error.",
            flag_values=self._values,
            module_name=_MODULE,
        )

    def _define(self, name: str, declared: Setting, default: Any) -> None:
        how: dict[str, Any] = {
            "name": name,
            "default": default,
            "help": declared.description.help,
            "flag_values": self._values,
            "module_name": _MODULE,
        }
        if declared.required:
            how["required"] = True
        if declared.description.parse:
            default = default if isinstance(default, str) else None
            flags.DEFINE_string(**how | {"default": default})
        elif declared.choices:
            flags.DEFINE_enum(enum_values=list(declared.choices), **how)
        elif declared.type is bool:
            flags.DEFINE_boolean(**how)
        elif declared.type is int:
            flags.DEFINE_integer(**how)
        elif declared.type is float:
            flags.DEFINE_float(**how)
        elif _is_list(declared.type):
            flags.DEFINE_list(**how)
        else:
            flags.DEFINE_string(**how)

    def parse(self, command: str, arguments: Sequence[str]) -> None:
        """Reads the flags of a command line and of the flagfiles it names.

        Raises:
          InputError: a flag has another name today.
          flags.Error: a flag is unknown, is missing or has a bad value.
        """
        if any(each.lstrip("-").startswith("flagfile") for each in arguments):
            ignored = f"--undefok={','.join(_FOREIGN_FLAGS)}"
            arguments = [ignored, *arguments]
        try:
            rest = self._values([f"albert {command}", *arguments])
        except flags.UnrecognizedFlagError as error:
            new = RENAMED_FLAGS.get(error.flagname)
            if new in self._settings:
                raise InputError(
                    f"--{error.flagname} is now called --{new}"
                ) from None
            raise
        # Messages of absl's logging wait for flags that are not used here.
        flags.FLAGS.mark_as_parsed()
        self.arguments = rest[1:]

    def build(self, config: type[Config], **others: Any) -> Config:
        """Returns a config with the values of the flags.

        Args:
          config: one of the classes that the flags are made of.
          **others: values of fields that are not flags.
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
        return config(**values, **others)

    def given(self, *names: str) -> list[str]:
        """Returns those of the named flags that the user has given."""
        return [name for name in names if self._values[name].present]

    def as_text(self) -> str:
        """Returns all flags as a flagfile, which repeats the command."""
        return self._values.flags_into_string()

    @property
    def debug(self) -> bool:
        """Whether errors show their traceback."""
        return self._values.is_parsed() and bool(self._values["debug"].value)

    def help(self) -> str:
        """Returns the help of all flags, under the headings of their groups."""
        groups: dict[str, list[str]] = collections.defaultdict(list)
        for title in ("", *GROUPS):
            groups[title] = []
        for name, declared in self._settings.items():
            groups[declared.description.group].append(name)
        lines: list[str] = []
        for title, group in groups.items():
            if group:
                lines += [f"{title or _NO_GROUP}:", *self._lines(group), ""]
        return "\n".join(lines).rstrip()

    def _lines(self, names: Sequence[str]) -> Iterator[str]:
        """Yields the help of flags, required ones first."""
        for name in sorted(
            names, key=lambda name: not self._settings[name].required
        ):
            flag = self._values[name]
            prefix = "[no]" if flag.boolean else ""
            text = f"--{prefix}{name}: {flag.help}"
            if flag.default not in (None, "", []) and flag.default is not False:
                text += f" (default: {_text(flag.default)})"
            yield flags.text_wrap(
                text, 80, indent=" " * 6, firstline_indent="  "
            )


def _is_list(annotation: Any) -> bool:
    """Whether a type is a sequence of strings, and not a string as well."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return all(map(_is_list, typing.get_args(annotation)))
    return typing.get_origin(annotation) in (collections.abc.Sequence, tuple)


def _text(default: Any) -> str:
    return ",".join(default) if isinstance(default, list) else str(default)


def require_flags(needed: Mapping[str, Sequence[str]], config: Any) -> None:
    """Checks flags that only make sense beside others.

    Args:
      needed: field -> fields one of which it requires.
      config: dataclass whose fields are None where a flag is not given.

    Raises:
      InputError: names the flag and what it requires.
    """
    for name, others in needed.items():
        if getattr(config, name) is None:
            continue
        if all(getattr(config, other) is None for other in others):
            names = {x.name: x.flag for x in settings_of(type(config))}
            wanted = " or ".join(f"--{names[other]}" for other in others)
            raise InputError(f"--{names[name]} requires {wanted}")
