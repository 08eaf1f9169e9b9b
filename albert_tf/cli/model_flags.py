"""Flags that choose an architecture."""

from __future__ import annotations

from absl import flags

from albert_tf.cli.architecture import named_config, parse_overrides
from albert_tf.config import AlbertConfig

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
    return named_config(CONFIG.value).replace(**changes())


def changes() -> dict[str, object]:
    """Returns the fields that `--config_overrides` sets."""
    return parse_overrides(OVERRIDES.value)
