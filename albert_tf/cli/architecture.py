"""Architectures as flags name them."""

from __future__ import annotations

import json

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


def named_config(name: str) -> AlbertConfig:
    """Returns an official config, or that of a JSON file."""
    if name.endswith(".json"):
        return AlbertConfig.from_json(name)
    return AlbertConfig.from_official(name)


def parse_overrides(text: str) -> dict[str, object]:
    """Returns the fields of `vocab_size=8000,sharing=none`."""
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
