"""The architecture of an ALBERT encoder as frozen, validated data."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import json
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.errors import InputError
from albert_tf.input_files import is_typed, parse_json, read_json, shown

SHARING = ("all", "attention", "ffn", "none")
ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu", "tanh", "linear")

# Spellings of activations in the files people have. Google's code knows one
# GELU, the tanh approximation, and calls it "gelu".
_ACTIVATION_ALIASES = {
    "gelu": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "": "linear",
}

# Keys of Google's published JSON files that no ALBERT model reads.
INERT_KEYS = {
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "down_scale_factor": (1,),
    "layers_to_keep": ([],),
}

# Nobody's model is as deep, or as large as int32 can count. A config that asks
# for more would exhaust the machine before its weights are looked at.
MAX_BLOCKS = 1024
_MAX_SIZE = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig:
    """Hyperparameters of an ALBERT encoder, under the paper code's names.

    The defaults are those of `albert_base_v2`. Lengths are in tokens, sizes in
    units (features). Every value that cannot work is an `InputError` (a
    `ValueError`) that names the field, the value and the rule.

    Attributes:
      vocab_size: V, number of entries of the vocabulary.
      embedding_size: E, width of the three embedding tables (paper, 3.1).
      hidden_size: H, width of the encoder; a multiple of the head count.
      num_hidden_layers: L, how often a block group is applied. There are at
        most `MAX_BLOCKS` blocks, inner ones included.
      num_hidden_groups: G, number of groups that do not share weights; layer l
        uses group `l * G // L`. L must be a multiple of G.
      inner_group_num: blocks with weights of their own inside one group.
      num_attention_heads: A.
      intermediate_size: I, width of the feed-forward network.
      hidden_act: one of `ACTIVATIONS`; "gelu" and "gelu_new" mean "gelu_tanh".
      hidden_dropout_prob: dropout of embeddings, attention and FFN outputs.
      attention_probs_dropout_prob: dropout of the attention probabilities.
      max_position_embeddings: longest sequence.
      type_vocab_size: number of segment ids.
      initializer_range: standard deviation of the truncated normal.
      layer_norm_eps: epsilon of every LayerNorm.
      sharing: what the layers of one group share: "all", "attention", "ffn" or
        "none" (paper, table 4).
      project_equal_sizes: whether there is an E -> H projection even if E == H,
        as Hugging Face and KerasHub have it; the original has none then.
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_tanh"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    sharing: str = "all"
    project_equal_sizes: bool = False

    def __post_init__(self):
        for field in dataclasses.fields(self):
            self._check_type(field)
        alias = _ACTIVATION_ALIASES.get(self.hidden_act, self.hidden_act)
        object.__setattr__(self, "hidden_act", alias)
        for name in (
            "vocab_size embedding_size hidden_size num_hidden_layers "
            "num_hidden_groups inner_group_num num_attention_heads "
            "intermediate_size max_position_embeddings type_vocab_size"
        ).split():
            value = getattr(self, name)
            self._require(name, value >= 1, "at least 1")
            self._require(name, value <= _MAX_SIZE, f"at most {_MAX_SIZE}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            self._require(name, 0 <= getattr(self, name) < 1, "in [0, 1)")
        for name in ("initializer_range", "layer_norm_eps"):
            self._require(name, getattr(self, name) > 0, "positive")
        self._require(
            "hidden_act",
            self.hidden_act in ACTIVATIONS,
            f"one of {', '.join(ACTIVATIONS)}",
        )
        self._require(
            "sharing", self.sharing in SHARING, f"one of {', '.join(SHARING)}"
        )
        self._require(
            "hidden_size",
            self.hidden_size % self.num_attention_heads == 0,
            f"a multiple of num_attention_heads={self.num_attention_heads}",
        )
        self._require(
            "num_hidden_layers",
            self.num_hidden_layers % self.num_hidden_groups == 0,
            f"a multiple of num_hidden_groups={self.num_hidden_groups}",
        )
        self._require(
            "num_hidden_layers",
            self.num_hidden_layers * self.inner_group_num <= MAX_BLOCKS,
            f"at most {MAX_BLOCKS} / inner_group_num={self.inner_group_num}",
        )

    def _check_type(self, field: dataclasses.Field) -> None:
        kind, rule = {
            "int": (int, "an integer"),
            "float": (float, "a finite number"),
            "bool": (bool, "true or false"),
            "str": (str, "a string"),
        }[str(field.type)]
        value = getattr(self, field.name)
        self._require(field.name, is_typed(value, kind), rule)
        if kind is float:
            object.__setattr__(self, field.name, float(value))

    def _require(self, name: str, condition: bool, rule: str) -> None:
        if not condition:
            raise InputError(
                f"AlbertConfig.{name}={shown(getattr(self, name))} must be "
                f"{rule}"
            )

    @property
    def has_embedding_projection(self) -> bool:
        """Whether embeddings go through a dense layer E -> H (paper, 3.1)."""
        return (
            self.embedding_size != self.hidden_size or self.project_equal_sizes
        )

    def block_scopes(self, half: str) -> list[tuple[str, str]]:
        """Returns whose weights one half of each block uses.

        Args:
          half: "attention" or "ffn".

        Returns:
          One pair of name scopes for each of the `num_hidden_layers *
          inner_group_num` blocks, in the order they run: `("group_<g>",
          "inner_<i>")` where `sharing` shares this half, with g = `layer * G //
          L`, else `("layer_<l>", "inner_<i>")`.
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
        """Returns a copy with some fields changed, validated again."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON-ready values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], source: str = "config"
    ) -> AlbertConfig:
        """Makes a config from field names and Google's inert extra keys.

        Args:
          values: field name -> value. Missing fields take their defaults, but
            `vocab_size` and `hidden_size` must be there.
          source: named in error messages.

        Raises:
          InputError: an unknown key, an inert key with a value that would
            change the model, a missing key or a bad value.
        """
        fields = {field.name for field in dataclasses.fields(cls)}
        known = {}
        for key, value in values.items():
            if key in fields:
                known[key] = value
            elif key not in INERT_KEYS:
                close = difflib.get_close_matches(key, fields, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise InputError(f"{source}: unknown key {key!r}{hint}")
            elif not any(
                value == inert and type(value) is type(inert)
                for inert in INERT_KEYS[key]
            ):
                raise InputError(
                    f"{source}: {key}={shown(value)} asks for a variant that "
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
        """Returns the config as JSON and writes it to `path` if given."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> AlbertConfig:
        """Reads a config file written by `to_json` or published by Google.

        Raises:
          InputError: the file is missing, is not JSON, or holds a bad value.
        """
        source = f"config file {os.fspath(path)}"
        return cls.from_dict(read_json(path, source), source)

    @classmethod
    def from_official(cls, name: str, **changes: Any) -> AlbertConfig:
        """Returns a packaged config, e.g. "albert_base_v2".

        Args:
          name: a name of `official_names()`.
          **changes: fields to replace.

        Raises:
          InputError: an unknown name (the message lists the known ones).
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


def _official_folder():
    package = importlib.resources.files("albert_tf.official_configs")
    return package / "models"


def named_config(name: str) -> AlbertConfig:
    """Returns an official config, or that of a JSON file."""
    if name.endswith(".json"):
        return AlbertConfig.from_json(name)
    return AlbertConfig.from_official(name)


def parse_overrides(text: str) -> dict[str, Any]:
    """Returns the fields of text such as `vocab_size=8000,sharing=none`.

    Raises:
      InputError: a part of the text is not `FIELD=VALUE`.
    """
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
            changes[field] = parse_json(value, field)
        except ValueError:
            changes[field] = value.strip()
    return changes
