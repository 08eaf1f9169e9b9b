"""Configuration of the architecture of an ALBERT encoder."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.resources
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError, shown
from albert_tf.files import write_atomically
from albert_tf.input_files import read_json
from albert_tf.settings import check_settings, parse_values, require, setting

_logger = logging.getLogger(__name__)

SHARING = ("all", "attention", "ffn", "none")
ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu", "tanh", "linear")

# Other spellings in published files. Google's code has only one GELU, the tanh
# approximation, and calls it "gelu".
_ACTIVATION_ALIASES = {
    "gelu": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "": "linear",
}

# Keys in Google's JSON files that no ALBERT model uses, and their only values.
INERT_KEYS = {
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "down_scale_factor": (1,),
    "layers_to_keep": ([],),
}

# Far more than any model has. A deeper one would exhaust memory before its
# weights are read.
MAX_BLOCKS = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig:
    """Hyperparameters of an ALBERT encoder, named as in Google's code.

    The defaults are those of `albert_base_v2`. Lengths are in tokens, sizes in
    units (features). Invalid values raise an `InputError` (a `ValueError`) that
    names the field, the value and the rule.
    """

    vocab_size: int = setting(
        30000, "V, size of the vocabulary.", bounds="[1, 10000000]"
    )
    embedding_size: int = setting(
        128,
        "E, size of the three embeddings (paper, section 3.1).",
        bounds="[1, 65536]",
    )
    hidden_size: int = setting(
        768,
        "H, size of the hidden states; a multiple of num_attention_heads.",
        bounds="[1, 65536]",
    )
    num_hidden_layers: int = setting(
        12, "L, number of layers.", bounds="[1, 1024]"
    )
    num_hidden_groups: int = setting(
        1,
        "G, number of layer groups that do not share weights; layer l uses "
        "group l * G // L. L must be a multiple of G.",
        bounds="[1, 1024]",
    )
    inner_group_num: int = setting(
        1,
        "Number of blocks in a group, each with its own weights.",
        bounds="[1, 1024]",
    )
    num_attention_heads: int = setting(
        12, "A, number of attention heads.", bounds="[1, 65536]"
    )
    intermediate_size: int = setting(
        3072, "I, size of the feed-forward layer.", bounds="[1, 1048576]"
    )
    hidden_act: str = setting(
        "gelu_tanh",
        'Activation function; "gelu" and "gelu_new" mean "gelu_tanh".',
        choices=ACTIVATIONS,
    )
    hidden_dropout_prob: float = setting(
        0.0,
        "Dropout of the embeddings and of the attention and FFN outputs.",
        bounds="[0, 1)",
    )
    attention_probs_dropout_prob: float = setting(
        0.0, "Dropout of the attention probabilities.", bounds="[0, 1)"
    )
    max_position_embeddings: int = setting(
        512, "Maximum sequence length.", bounds="[1, 1048576]"
    )
    type_vocab_size: int = setting(
        2, "Number of segment ids.", bounds="[1, 65536]"
    )
    initializer_range: float = setting(
        0.02,
        "Standard deviation of the initial weights (truncated normal).",
        bounds="(0, 1000]",
    )
    layer_norm_eps: float = setting(
        1e-12, "Epsilon of the layer normalizations.", bounds="(0, 1]"
    )
    sharing: str = setting(
        "all",
        "Which weights the layers of a group share (paper, table 4).",
        choices=SHARING,
    )
    project_equal_sizes: bool = setting(
        False,
        "Whether to project embeddings even if E == H, as Hugging Face and "
        "KerasHub do; Google's code does not.",
    )
    trained_positions: int | None = setting(
        None,
        "Number of positions that were trained; later position embeddings are "
        "random, or copies. None: all.",
        bounds="[1, 1048576]",
    )

    def __post_init__(self):
        if isinstance(self.hidden_act, str):
            alias = _ACTIVATION_ALIASES.get(self.hidden_act, self.hidden_act)
            object.__setattr__(self, "hidden_act", alias)
        check_settings(self)
        require(
            self,
            "hidden_size",
            self.hidden_size % self.num_attention_heads == 0,
            f"a multiple of num_attention_heads={self.num_attention_heads}",
        )
        require(
            self,
            "num_hidden_layers",
            self.num_hidden_layers % self.num_hidden_groups == 0,
            f"a multiple of num_hidden_groups={self.num_hidden_groups}",
        )
        require(
            self,
            "num_hidden_layers",
            self.num_hidden_layers * self.inner_group_num <= MAX_BLOCKS,
            f"at most {MAX_BLOCKS} / inner_group_num={self.inner_group_num}",
        )
        longest = self.max_position_embeddings
        require(
            self,
            "trained_positions",
            (self.trained_positions or 1) <= longest,
            f"at most max_position_embeddings={longest}",
        )
        if self.trained_positions == longest:
            object.__setattr__(self, "trained_positions", None)

    @property
    def num_trained_positions(self) -> int:
        """Maximum sequence length of the training, in tokens."""
        return self.trained_positions or self.max_position_embeddings

    @property
    def has_embedding_projection(self) -> bool:
        """Whether embeddings are projected from E to H (paper, section 3.1)."""
        return (
            self.embedding_size != self.hidden_size or self.project_equal_sizes
        )

    def block_scopes(self, half: str) -> list[tuple[str, str]]:
        """Returns the scopes of the weights that each block uses.

        Args:
          half: the half of the blocks, "attention" or "ffn".

        Returns:
          A pair of name scopes for each of the `num_hidden_layers *
          inner_group_num` blocks, in order of execution: `("group_<g>",
          "inner_<i>")` with g = `layer * G // L` if `sharing` includes this
          half, otherwise `("layer_<l>", "inner_<i>")`.
        """
        scopes = []
        for layer in range(self.num_hidden_layers):
            group = layer * self.num_hidden_groups // self.num_hidden_layers
            shared = self.sharing in ("all", half)
            outer = f"group_{group}" if shared else f"layer_{layer}"
            for inner in range(self.inner_group_num):
                scopes.append((outer, f"inner_{inner}"))
        return scopes

    def replace(self, **changes: Any) -> AlbertConfig:
        """Returns a validated copy with some fields changed."""
        for name in changes:
            if name not in self.__dataclass_fields__:
                raise InputError(f"AlbertConfig has no field {name!r}")
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields that are not None, as JSON values."""
        fields = dataclasses.asdict(self)
        return {k: value for k, value in fields.items() if value is not None}

    @classmethod
    def unknown_key(cls, key: str, source: str) -> InputError:
        """Returns the error for a key that is not a field."""
        close = difflib.get_close_matches(key, cls.__dataclass_fields__, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return InputError(f"{source}: unknown key {key!r}{hint}")

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], source: str = "config"
    ) -> AlbertConfig:
        """Creates a config from a dict, which may have Google's unused keys.

        Args:
          values: values of the fields, by name. Missing fields take their
            defaults, except for `vocab_size` and `hidden_size`.
          source: name of the file in error messages.

        Raises:
          InputError: if a key is unknown or missing, if a value is invalid, or
            if an unused key has a value that would change the model.
        """
        known = {}
        for key, value in values.items():
            if key in cls.__dataclass_fields__:
                known[key] = value
            elif key not in INERT_KEYS:
                raise cls.unknown_key(key, source)
            elif not any(
                value == inert and type(value) is type(inert)
                for inert in INERT_KEYS[key]
            ):
                raise InputError(
                    f"{source}: {key}={shown(value)} selects a variant that "
                    f"is not supported; expected {INERT_KEYS[key][0]!r}"
                )
        for key in ("vocab_size", "hidden_size"):
            if key not in known:
                raise InputError(f"{source}: key {key!r} is missing")
        try:
            return cls(**known)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Returns the config as JSON, and writes it to `path` if given."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        if path is not None:
            write_atomically(path, text)
        return text

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> AlbertConfig:
        """Reads a config file written by `to_json` or published by Google.

        Raises:
          InputError: if the file is missing, is not JSON, or has an invalid
            value.
        """
        source = f"config file {os.fspath(path)}"
        return cls.from_dict(read_json(path, source), source)

    @classmethod
    def from_official(cls, name: str, **changes: Any) -> AlbertConfig:
        """Returns a packaged config, e.g. "albert_base_v2".

        Args:
          name: one of `official_names()`.
          **changes: fields to change.

        Raises:
          InputError: if the name is unknown.
        """
        names = cls.official_names()
        if name not in names:
            raise InputError(
                f"unknown official config {name!r}; choose one of "
                f"{', '.join(names)}"
            )
        text = (_official_folder() / f"{name}.json").read_text("utf-8")
        return cls.from_dict(json.loads(text), source=name).replace(**changes)

    @staticmethod
    def official_names() -> list[str]:
        """Returns the names of the packaged configs, sorted."""
        return sorted(
            entry.name.removesuffix(".json")
            for entry in _official_folder().iterdir()
            if entry.name.endswith(".json")
        )


def check_positions(config: AlbertConfig, length: int, name: str) -> None:
    """Raises an `InputError` if a setting exceeds the model's positions."""
    longest = config.max_position_embeddings
    if length > longest:
        raise InputError(
            f"{name}={length} must be at most {longest}, the model's "
            "max_position_embeddings"
        )


@functools.cache
def warn_of_untrained_positions(
    config: AlbertConfig, length: int, setting: str = ""
) -> None:
    """Warns, once, of sequences longer than those in training.

    Lengths above `max_position_embeddings` are not warned of: they are errors.

    Args:
      config: config of the model.
      length: maximum sequence length, in tokens.
      setting: the setting that determines the length, such as
        `max_seq_length`; "" if the length follows from the model or the data.
    """
    trained = config.trained_positions
    longest = config.max_position_embeddings
    if trained is None or not trained < length <= longest:
        return
    if setting:
        given, advice = f"{setting}={length}", f"use {setting}={trained}"
    else:
        given, advice = f"inputs may have {length} tokens", "shorten them"
    _logger.warning(
        "%s, but the model was trained on sequences of up to %d tokens "
        "(trained_positions in its config.json): later positions are "
        "untrained; %s or train on longer sequences",
        given,
        trained,
        advice,
    )


def _official_folder():
    package = importlib.resources.files("albert_tf.official_configs")
    return package / "models"


def named_config(name: str) -> AlbertConfig:
    """Returns an official config, or reads a JSON file."""
    if name.endswith(".json"):
        return AlbertConfig.from_json(name)
    return AlbertConfig.from_official(name)


def parse_overrides(text: str) -> dict[str, Any]:
    """Parses text such as `vocab_size=8000,sharing=none`.

    Raises:
      InputError: if the text is not a list of `NAME=VALUE`.
    """
    return parse_values("--config_overrides", text, AlbertConfig().to_dict())
