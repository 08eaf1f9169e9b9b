"""Translation of configs from and to other systems.

The same value may have another meaning: "gelu" is the tanh approximation in
Google's configs and the exact function in Hugging Face's. KerasHub has a fixed
activation and a single dropout rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert_tf.config import ACTIVATIONS, INERT_KEYS, AlbertConfig
from albert_tf.errors import InputError, shown
from albert_tf.interop.checkpoint import HeadSettings
from albert_tf.schema import typed

# Hugging Face's activations. `gelu_fast` is the tanh approximation with its
# constants multiplied out.
_HF_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    **{name: name for name in ACTIVATIONS},
}
_TO_HF_ACTIVATION = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}

# Fields that only this library has, with the values that all others mean.
_VARIANTS = {"sharing": "all"}

# Defaults of Hugging Face's AlbertConfig, the xxlarge model.
_HF_DEFAULTS = AlbertConfig().to_dict() | {
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "hidden_act": "gelu_new",
}
for _name in ("project_equal_sizes", *_VARIANTS):
    del _HF_DEFAULTS[_name]

# `model_type` of models that transformers must not open as ALBERT.
OUR_MODEL_TYPE = "albert_tf"
# The `problem_type` with which transformers computes sigmoids.
MULTI_LABEL = "multi_label_classification"

HF_ARCHITECTURES = {
    "AlbertForSequenceClassification": "classifier_head",
    "AlbertForPairClassification": "pair_head",
    "AlbertForMultipleChoice": "choice_head",
    "AlbertForTokenClassification": "token_head",
    "AlbertForQuestionAnswering": "span_head",
    "AlbertForJointSpan": "joint_span_head",
    "AlbertForPreTraining": "sop_head",
    "AlbertForMaskedLM": "mlm_head",
    "AlbertModel": None,
}

_KERAS_HUB_NAMES = {
    "vocabulary_size": "vocab_size",
    "embedding_dim": "embedding_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_groups": "num_hidden_groups",
    "num_inner_repetitions": "inner_group_num",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
_KERAS_HUB_OPTIONAL = (
    "num_groups",
    "num_inner_repetitions",
    "max_sequence_length",
    "num_segments",
)


def config_from_huggingface(
    values: Mapping[str, Any], source: str
) -> AlbertConfig:
    """Translates the `config.json` of transformers or `save_pretrained`.

    Keys that do not describe the architecture are ignored.

    Raises:
      InputError: if a value is invalid, or asks for a variant of the model that
        is not supported, such as relative position embeddings.
    """
    kind = typed(values, "model_type", str, "albert", source)
    if kind not in ("albert", OUR_MODEL_TYPE):
        raise InputError(f"{source}: model_type={kind!r} is not an ALBERT")
    position = typed(values, "position_embedding_type", str, "absolute", source)
    if position != "absolute":
        raise InputError(
            f"{source}: position_embedding_type={position!r} is not supported; "
            "expected 'absolute'"
        )
    known = {k: values.get(k, v) for k, v in _HF_DEFAULTS.items()}
    act = typed(known, "hidden_act", str, "", source)
    if act not in _HF_ACTIVATIONS:
        raise InputError(
            f"{source}: hidden_act={act!r} must be one of "
            f"{', '.join(_HF_ACTIVATIONS)}"
        )
    known["hidden_act"] = _HF_ACTIVATIONS[act]
    ours = (*_VARIANTS, "trained_positions")
    known |= {k: values[k] for k in ours if k in values}
    known |= {k: values[k] for k in INERT_KEYS if k in values}
    return AlbertConfig.from_dict(known, source=source)


def head_from_huggingface(
    values: Mapping[str, Any], source: str
) -> tuple[str | None, HeadSettings]:
    """Returns the head that `architectures` declares, and its settings."""
    declared = None
    for name in typed(values, "architectures", list, None, source) or ():
        if not isinstance(name, str):
            raise InputError(
                f"{source}: architectures={shown(values['architectures'])} "
                "must be a list of names"
            )
        declared = HF_ARCHITECTURES.get(name, declared)
    labels = _labels(typed(values, "id2label", dict, None, source), source)
    names = labels
    if labels and all(n == f"LABEL_{i}" for i, n in enumerate(labels)):
        names = None  # Hugging Face's placeholders for unnamed labels.
    dropout = typed(values, "classifier_dropout_prob", float, None, source)
    return declared, HeadSettings(
        num_labels=len(labels) if labels else 2,
        labels=names,
        dropout=check_dropout(dropout, "classifier_dropout_prob", source),
        multi_label=values.get("problem_type") == MULTI_LABEL,
    )


def check_dropout(rate: float | None, key: str, source: str) -> float:
    """Returns a head's dropout rate; 0.1 for None.

    Raises:
      InputError: if the rate is not in [0, 1).
    """
    if rate is not None and not 0 <= rate < 1:
        raise InputError(f"{source}: {key}={rate} must be in [0, 1)")
    return 0.1 if rate is None else float(rate)


def _labels(
    values: Mapping[str, Any] | None, source: str
) -> tuple[str, ...] | None:
    """Returns the label names of `id2label`, ordered by id."""
    if not values:
        return None
    expected = [str(number) for number in range(len(values))]
    if set(values) != set(expected) or not all(
        isinstance(name, str) for name in values.values()
    ):
        raise InputError(
            f"{source}: id2label={shown(values)} must map the ids 0 to "
            f"{len(values) - 1} to strings"
        )
    return tuple(values[number] for number in expected)


def config_to_huggingface(config: AlbertConfig) -> dict[str, Any]:
    """Translates a config to the keys of transformers' `config.json`."""
    values = {k: v for k, v in config.to_dict().items() if k in _HF_DEFAULTS}
    act = config.hidden_act
    values["hidden_act"] = _TO_HF_ACTIVATION.get(act, act)
    values["model_type"] = "albert"
    if config.trained_positions is not None:
        values["trained_positions"] = config.trained_positions
    if variants := _variants(config):
        values["model_type"] = OUR_MODEL_TYPE
        values |= variants
        # For another model type, transformers' AlbertModel only warns and
        # initializes the weights it does not find. It loads the weights file
        # that this key names, and fails as there is none.
        values["transformers_weights"] = "only albert_tf has this architecture"
    return values


def config_to_google(config: AlbertConfig) -> dict[str, Any]:
    """Translates a config to the keys of Google's `albert_config.json`.

    Raises:
      InputError: if Google's code does not support the architecture.
    """
    _raise_if_any(
        "Google's code",
        config,
        {
            f"hidden_act={config.hidden_act!r}": (
                config.hidden_act == "gelu_erf"
            ),
            f"layer_norm_eps={config.layer_norm_eps}": (
                config.layer_norm_eps != 1e-12
            ),
            "project_equal_sizes=True": (
                config.has_embedding_projection
                and config.embedding_size == config.hidden_size
            ),
        },
    )
    values = {k: v for k, v in config.to_dict().items() if k in _HF_DEFAULTS}
    del values["layer_norm_eps"]
    if config.hidden_act == "gelu_tanh":
        values["hidden_act"] = "gelu"
    # Google's pretraining script fails without these keys.
    inert = {"down_scale_factor": 1, "net_structure_type": 0, "gap_size": 0}
    return {**values, **inert, "num_memory_blocks": 0}


def config_from_keras_hub(
    values: Mapping[str, Any], source: str
) -> AlbertConfig:
    """Translates the arguments of KerasHub's `AlbertBackbone`.

    Raises:
      InputError: if an argument is missing or invalid.
    """
    needed = [k for k in _KERAS_HUB_NAMES if k not in _KERAS_HUB_OPTIONAL]
    missing = [k for k in needed if k not in values]
    if missing:
        raise InputError(f"{source}: key {missing[0]!r} is missing")
    known = {
        ours: values[theirs]
        for theirs, ours in _KERAS_HUB_NAMES.items()
        if theirs in values
    }
    dropout = values.get("dropout", 0.0)
    return AlbertConfig.from_dict(
        {
            **known,
            "hidden_act": "gelu_tanh",
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
        },
        source=source,
    )


def config_to_keras_hub(config: AlbertConfig) -> dict[str, Any]:
    """Translates a config to the arguments of KerasHub's `AlbertBackbone`.

    Raises:
      InputError: if KerasHub does not support the architecture.
    """
    rates = (config.hidden_dropout_prob, config.attention_probs_dropout_prob)
    _raise_if_any(
        "KerasHub",
        config,
        {
            f"hidden_act={config.hidden_act!r}": (
                config.hidden_act != "gelu_tanh"
            ),
            f"layer_norm_eps={config.layer_norm_eps}": (
                config.layer_norm_eps != 1e-12
            ),
            f"two dropout rates, hidden {rates[0]} and attention {rates[1]}": (
                rates[0] != rates[1]
            ),
        },
    )
    values = config.to_dict()
    theirs = {k: values[ours] for k, ours in _KERAS_HUB_NAMES.items()}
    return {**theirs, "dropout": rates[0]}


def _variants(config: AlbertConfig) -> dict[str, Any]:
    values = {name: getattr(config, name) for name in _VARIANTS}
    return {k: x for k, x in values.items() if x != _VARIANTS[k]}


def _raise_if_any(
    system: str, config: AlbertConfig, unsupported: Mapping[str, bool]
) -> None:
    found = [setting for setting, is_used in unsupported.items() if is_used]
    found += [f"{name}={value!r}" for name, value in _variants(config).items()]
    if found:
        raise InputError(f"{system} does not support {', '.join(found)}")
