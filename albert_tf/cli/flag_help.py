"""The flags of a command as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from absl import flags

_NO_GROUP = "Flags"


def flag_help(
    module: str, groups: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Returns what the flags of a module do.

    Args:
      module: the name of the module.
      groups: title -> names of flags, in the order to be shown; those in no
        group come last, in the order of their definition.
    """
    found = {f.name: f for f in flags.FLAGS.get_key_flags_for_module(module)}
    lines = []
    for title, names in (groups or {}).items():
        lines += [f"{title}:", *_lines(found.pop(name) for name in names), ""]
    if found:
        lines += [f"{_NO_GROUP}:", *_lines(found.values())]
    return "\n".join(lines).rstrip()


def _lines(group) -> Iterator[str]:
    for flag in group:
        prefix = "[no]" if flag.boolean else ""
        text = f"--{prefix}{flag.name}: {flag.help}"
        if flag.default not in (None, "") and flag.default is not False:
            text += f" (default: {flag.default})"
        yield flags.text_wrap(text, 80, indent=" " * 6, firstline_indent="  ")
