"""The one table of what every system calls every tensor of an ALBERT.

A row is one layer: our path of it, its kind, its shape, and what Google's TF1
code, Hugging Face, KerasHub and Model Garden call it. Everything that reads or
writes a checkpoint is derived from these rows, in both directions.

Shapes are ours (kernels `[in, out]`), in the paper's letters: V vocabulary, E
embedding, H hidden, I intermediate, P positions, T token types, and N labels.

Sources: the variables of a checkpoint of google-research/albert; the state
dict of transformers' AlbertFor...; KerasHub's `model.weights.h5`, and, after
"task/", its `task.weights.h5`; the variable names in Model Garden's exports.
The joint span head, which Hugging Face's ALBERT lacks, has the names of its
XLNet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from albert_tf.config import AlbertConfig
from albert_tf.interop.transforms import Transform

# The table's columns; and our own names, in runs and exports.
FORMATS = ("google", "huggingface", "keras_hub", "model_garden")
OURS = "albert_tf"

# A block's half: its scope depends on what the layers of a group share.
_BLOCK = "encoder/transformer/{outer}/{inner}"
_GOOGLE_BLOCK = "bert/encoder/transformer/group_{g}/inner_group_{i}"
_HF_BLOCK = "albert.encoder.albert_layer_groups.{g}.albert_layers.{i}"
_HUB_BLOCK = "layers/transformer_encoder{block}"

# part, our path, kind, shape | google | huggingface | keras_hub | model_garden
# fmt: off
_LAYERS = (
    ("encoder", "encoder/embeddings/word_embeddings", "table", "V E",
     "bert/embeddings/word_embeddings",
     "albert.embeddings.word_embeddings",
     "layers/reversible_embedding", "word_embeddings"),
    ("encoder", "encoder/embeddings/token_type_embeddings", "table", "T E",
     "bert/embeddings/token_type_embeddings",
     "albert.embeddings.token_type_embeddings",
     "layers/embedding", "type_embeddings"),
    ("encoder", "encoder/embeddings/position_embeddings", "table", "P E",
     "bert/embeddings/position_embeddings",
     "albert.embeddings.position_embeddings",
     "layers/position_embedding", "position_embedding"),
    ("encoder", "encoder/embeddings/layer_norm", "norm", "E",
     "bert/embeddings/LayerNorm",
     "albert.embeddings.LayerNorm",
     "layers/layer_normalization", "embeddings/layer_norm"),
    ("projection", "encoder/embedding_projection", "dense", "E H",
     "bert/encoder/embedding_hidden_mapping_in",
     "albert.encoder.embedding_hidden_mapping_in",
     "layers/dense", "embedding_projection"),
    *((
        "encoder", f"{_BLOCK}/attention/{name}", "heads", "H H",
        f"{_GOOGLE_BLOCK}/attention_1/self/{name}",
        f"{_HF_BLOCK}.attention.{name}",
        f"{_HUB_BLOCK}/_self_attention_layer/{name}_dense",
        f"transformer/self_attention/{name}",
    ) for name in ("query", "key", "value")),
    ("encoder", f"{_BLOCK}/attention/output", "from_heads", "H H",
     f"{_GOOGLE_BLOCK}/attention_1/output/dense",
     f"{_HF_BLOCK}.attention.dense",
     f"{_HUB_BLOCK}/_self_attention_layer/output_dense",
     "transformer/self_attention/attention_output"),
    ("encoder", f"{_BLOCK}/attention/layer_norm", "norm", "H",
     f"{_GOOGLE_BLOCK}/LayerNorm",
     f"{_HF_BLOCK}.attention.LayerNorm",
     f"{_HUB_BLOCK}/_self_attention_layer_norm",
     "transformer/self_attention_layer_norm"),
    ("encoder", f"{_BLOCK}/feed_forward/intermediate", "dense", "H I",
     f"{_GOOGLE_BLOCK}/ffn_1/intermediate/dense",
     f"{_HF_BLOCK}.ffn",
     f"{_HUB_BLOCK}/_feedforward_intermediate_dense",
     "transformer/intermediate"),
    ("encoder", f"{_BLOCK}/feed_forward/output", "dense", "I H",
     f"{_GOOGLE_BLOCK}/ffn_1/intermediate/output/dense",
     f"{_HF_BLOCK}.ffn_output",
     f"{_HUB_BLOCK}/_feedforward_output_dense",
     "transformer/output"),
    ("encoder", f"{_BLOCK}/feed_forward/layer_norm", "norm", "H",
     f"{_GOOGLE_BLOCK}/LayerNorm_1",
     f"{_HF_BLOCK}.full_layer_layer_norm",
     f"{_HUB_BLOCK}/_feedforward_layer_norm",
     "transformer/output_layer_norm"),
    ("pooler", "encoder/pooler", "dense", "H H",
     "bert/pooler/dense", "albert.pooler",
     "layers/dense_1", "pooler_transform"),
    ("mlm_head", "mlm_head/dense", "dense", "H E",
     "cls/predictions/transform/dense", "predictions.dense",
     "task/layers/masked_lm_head/_intermediate_dense",
     "cls/predictions/transform/dense"),
    ("mlm_head", "mlm_head/layer_norm", "norm", "E",
     "cls/predictions/transform/LayerNorm", "predictions.LayerNorm",
     "task/layers/masked_lm_head/_intermediate_layer_norm",
     "cls/predictions/transform/LayerNorm"),
    ("mlm_head", "mlm_head/output_bias", "vector", "V",
     "cls/predictions/output_bias", "predictions.bias",
     "task/layers/masked_lm_head/vars/0", "cls/predictions/output_bias"),
    ("sop_head", "sop_head", "rows", "H 2",
     "cls/seq_relationship/", "sop_classifier.classifier", None, None),
    ("classifier_head", "classifier_head", "rows", "H N",
     "", "classifier", "task/layers/dense", None),
    ("choice_head", "choice_head", "rows", "H 1",
     "", "classifier", None, None),
    ("token_head", "token_head", "rows", "H N",
     None, "classifier", None, None),
    ("span_head", "span_head", "rows", "H 2",
     "cls/squad/", "qa_outputs", None, None),
    ("joint_span_head", "joint_span_head/start", "dense", "H 1",
     "start_logits/dense", "start_logits.dense", None, None),
    ("joint_span_head", "joint_span_head/end/dense", "dense", "2H H",
     "end_logits/dense_0", "end_logits.dense_0", None, None),
    ("joint_span_head", "joint_span_head/end/layer_norm", "norm", "H",
     "end_logits/LayerNorm", "end_logits.LayerNorm", None, None),
    ("joint_span_head", "joint_span_head/end/output", "dense", "H 1",
     "end_logits/dense_1", "end_logits.dense_1", None, None),
    ("joint_span_head", "joint_span_head/answerability/dense", "dense", "2H H",
     "answer_class/dense_0", "answer_class.dense_0", None, None),
    ("joint_span_head", "joint_span_head/answerability/output", "kernel",
     "H 1", "answer_class/dense_1", "answer_class.dense_1", None, None),
)

# How a system spells the tensors of a layer after the layer's name. "rows" is
# a dense layer whose matrix Google keeps as [out, in], without a layer's name.
_SUFFIXES = {
    "google": {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma",
               "beta": "/beta", "table": "", "rows": "output_weights",
               "rows_bias": "output_bias"},
    "huggingface": {"kernel": ".weight", "bias": ".bias", "gamma": ".weight",
                    "beta": ".bias", "table": ".weight", "rows": ".weight",
                    "rows_bias": ".bias"},
    "keras_hub": {"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0",
                  "beta": "/vars/1", "table": "/vars/0", "rows": "/vars/0",
                  "rows_bias": "/vars/1"},
    "model_garden": {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma",
                     "beta": "/beta", "table": "/embeddings"},
}

# Which matrices are not ours as they stand.
_TRANSPOSED = {"huggingface": ("kernel", "rows"), "google": ("rows",)}
_PER_HEAD = ("keras_hub", "model_garden")
# fmt: on

# Kind of layer -> the tensors it has, and the axes of the shape they take.
_TENSORS = {
    "table": {"table": slice(None)},
    "norm": {"gamma": slice(None), "beta": slice(None)},
    "dense": {"kernel": slice(None), "bias": slice(1, None)},
    "heads": {"kernel": slice(None), "bias": slice(1, None)},
    "from_heads": {"kernel": slice(None), "bias": slice(1, None)},
    "rows": {"rows": slice(None), "rows_bias": slice(1, None)},
    "kernel": {"kernel": slice(None)},
    "vector": {"": slice(None)},
}
_OUR_NAMES = {"table": "", "": "", "rows": "/kernel", "rows_bias": "/bias"}

PARTS = tuple(dict.fromkeys(part for part, *_ in _LAYERS))
HEADS = PARTS[PARTS.index("pooler") + 1 :]

# Systems that project the embeddings where E == H, too.
ALWAYS_PROJECTS = ("huggingface", "keras_hub")


@dataclasses.dataclass(frozen=True)
class Name:
    """What a system calls a tensor, and how it holds it."""

    name: str
    transform: Transform


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of a model.

    Attributes:
      part: the part it belongs to, one of `PARTS`.
      path: our variable's path.
      shape: our shape.
      names: format -> `Name`; a system that has no such tensor is left out.
    """

    part: str
    path: str
    shape: tuple[int, ...]
    names: dict[str, Name]


def tensors_of(
    config: AlbertConfig, parts: frozenset[str] | set[str], num_labels: int = 1
) -> Iterator[Tensor]:
    """Yields the tensors of a model.

    Args:
      config: its architecture.
      parts: which of `PARTS` it has.
      num_labels: N, of a classifier's or token classifier's head.
    """
    sizes = {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "H": config.hidden_size,
        "2H": 2 * config.hidden_size,
        "I": config.intermediate_size,
        "P": config.max_position_embeddings,
        "T": config.type_vocab_size,
        "N": num_labels,
        "1": 1,
        "2": 2,
    }
    for part, path, kind, letters, *theirs in _LAYERS:
        if part not in parts:
            continue
        shape = tuple(sizes[letter] for letter in letters.split())
        for scope in _scopes(config, path):
            for tensor, axes in _TENSORS[kind].items():
                ours = _OUR_NAMES.get(tensor, f"/{tensor}")
                ours = path.format(**scope) + ours
                names = dict(_names(config, kind, tensor, theirs, scope))
                names[OURS] = Name(ours, Transform())
                yield Tensor(part, ours, shape[axes], names)


def part_of(path: str) -> str:
    """Returns the part, of `PARTS`, that a variable is of."""
    first, _, second = path.partition("/")
    if first != "encoder":
        return first
    second = second.split("/")[0]
    return {"pooler": "pooler", "embedding_projection": "projection"}.get(
        second, "encoder"
    )


def _names(config, kind, tensor, layers, scope):
    for system, layer in zip(FORMATS, layers, strict=True):
        if layer is None:
            continue
        transform = Transform()
        if tensor in _TRANSPOSED.get(system, ()):
            transform = Transform("transpose")
        elif system in _PER_HEAD and kind == "heads":
            transform = Transform("split_last", config.num_attention_heads)
        elif (system in _PER_HEAD and kind == "from_heads") and (
            tensor == "kernel"
        ):
            transform = Transform("split_first", config.num_attention_heads)
        suffix = _SUFFIXES[system].get(tensor, "")
        yield system, Name(layer.format(**scope) + suffix, transform)


def _scopes(config: AlbertConfig, path: str) -> list[dict[str, object]]:
    """Returns what fills the braces of a row: one dict for each set of weights.

    Groups, as every system has them; layers, which only we have, where
    `config.sharing` leaves this half of a block to each layer.
    """
    if "{" not in path:
        return [{}]
    half = "attention" if "/attention/" in path else "ffn"
    sets = dict.fromkeys(config.block_scopes(half))
    return [
        {
            "outer": outer,
            "inner": inner,
            "g": outer.removeprefix("group_"),
            "i": inner.removeprefix("inner_"),
            "block": f"_{number}" if number else "",
        }
        for number, (outer, inner) in enumerate(sets)
    ]
