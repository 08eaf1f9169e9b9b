"""Flags that choose an architecture."""

from __future__ import annotations

import json

from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

CONFIG = flags.DEFINE_string(
    "config",
    "albert_base_v2",
    "Architecture: an official name (`albert analyze parameters` lists them) "
    "or a JSON file, ours or Google's.",
)
OVERRIDES = flags.DEFINE_string(
    "config_overrides",
    "",
    "Changes to it, such as vocab_size=8000,sharing=none.",
)


def model_config() -> AlbertConfig:
    """Returns the architecture that the flags describe."""
    name = CONFIG.value
    if name.endswith(".json"):
        config = AlbertConfig.from_json(name)
    else:
        config = AlbertConfig.from_official(name)
    return config.replace(**_parse_overrides(OVERRIDES.value))


def _parse_overrides(text: str) -> dict[str, object]:
    known = AlbertConfig().to_dict()
    changes = {}
    for part in filter(None, text.split(",")):
        field, equals, value = part.partition("=")
        field = field.strip()
        if not equals or field not in known:
            raise InputError(
                f"--config_overrides: {part!r} is not FIELD=VALUE with one of "
                f"the fields {', '.join(known)}"
            )
        try:
            changes[field] = json.loads(value)
        except ValueError:
            changes[field] = value.strip()
    return changes
