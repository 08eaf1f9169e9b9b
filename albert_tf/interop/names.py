"""Names and layouts of all tensors of an ALBERT in every system.

Each row of the table is a layer: our path, its kind and shape, and its names in
Google's TF1 code, Hugging Face, KerasHub and Model Garden. All readers and
writers of checkpoints are derived from this table.

Shapes are ours (kernels `[in, out]`), in the paper's letters: V vocabulary, E
embedding, H hidden, I intermediate, P positions, T token types, N labels.

Sources: the variables of a checkpoint of google-research/albert; the state
dict of transformers' AlbertFor...; KerasHub's `model.weights.h5`, and, after
"task/", its `task.weights.h5`; the variable names in Model Garden's exports.
The joint span head, which Hugging Face's ALBERT lacks, has the names of its
XLNet; no other system has the pair head.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

import numpy as np

from albert_tf.config import AlbertConfig

# The table's columns, and the name of our own format, of runs and exports.
FORMATS = ("google", "huggingface", "keras_hub", "model_garden")
OURS = "albert_tf"

# The scopes of a block depend on `config.sharing`.
_BLOCK = "encoder/transformer/{outer}/{inner}"
_GOOGLE_BLOCK = "bert/encoder/transformer/group_{g}/inner_group_{i}"
_HF_BLOCK = "albert.encoder.albert_layer_groups.{g}.albert_layers.{i}"
_HUB_BLOCK = "layers/transformer_encoder{block}"

# component, our path, kind, shape
# | google | huggingface | keras_hub | model_garden
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
    ("sop_head", "sop_head", "matrix", "H 2",
     "cls/seq_relationship/", "sop_classifier.classifier", None, None),
    ("classifier_head", "classifier_head", "matrix", "H N",
     "", "classifier", "task/layers/dense", None),
    ("pair_head", "pair_head", "matrix", "4H N",
     None, "pair_classifier", None, None),
    ("choice_head", "choice_head", "matrix", "H 1",
     "", "classifier", None, None),
    ("token_head", "token_head", "matrix", "H N",
     None, "classifier", None, None),
    ("span_head", "span_head", "matrix", "H 2",
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

# Suffixes of a layer's tensors in each system. "matrix" is a dense layer whose
# matrix Google stores as [out, in], without a layer name.
_SUFFIXES = {
    "google": {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma",
               "beta": "/beta", "table": "", "matrix": "output_weights",
               "matrix_bias": "output_bias"},
    "huggingface": {"kernel": ".weight", "bias": ".bias", "gamma": ".weight",
                    "beta": ".bias", "table": ".weight", "matrix": ".weight",
                    "matrix_bias": ".bias"},
    "keras_hub": {"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0",
                  "beta": "/vars/1", "table": "/vars/0", "matrix": "/vars/0",
                  "matrix_bias": "/vars/1"},
    "model_garden": {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma",
                     "beta": "/beta", "table": "/embeddings"},
}

# Matrices whose layout differs from ours.
_TRANSPOSED = {"huggingface": ("kernel", "matrix"), "google": ("matrix",)}
_PER_HEAD = ("keras_hub", "model_garden")
# fmt: on

# Kind of layer -> its tensors, each with the first axis of the layer's shape
# that it has.
_TENSORS = {
    "table": {"table": 0},
    "norm": {"gamma": 0, "beta": 0},
    "dense": {"kernel": 0, "bias": 1},
    "heads": {"kernel": 0, "bias": 1},
    "from_heads": {"kernel": 0, "bias": 1},
    "matrix": {"matrix": 0, "matrix_bias": 1},
    "kernel": {"kernel": 0},
    "vector": {"": 0},
}
_OUR_NAMES = {"table": "", "": "", "matrix": "/kernel", "matrix_bias": "/bias"}

COMPONENTS = tuple(dict.fromkeys(name for name, *_ in _LAYERS))
HEADS = COMPONENTS[COMPONENTS.index("pooler") + 1 :]
# Those of tasks to fine-tune on, which an objective may also train.
TASK_HEADS = COMPONENTS[COMPONENTS.index("classifier_head") :]
# Heads with an output for each label.
LABEL_HEADS = ("classifier_head", "pair_head", "token_head")

# For callers that do not read a task head: the head to which tensors belong
# whose names several heads share.
ANY_HEAD = "classifier_head"

# Systems that project the embeddings even if E == H.
ALWAYS_PROJECTS = ("huggingface", "keras_hub")


@dataclasses.dataclass(frozen=True)
class Transform:
    """Converts an array between our layout and another system's, bit for bit.

    Attributes:
      kind: "same"; "transpose"; "split_last", which splits the last axis by
        attention head, `[..., H]` to `[..., A, H/A]`; or "split_first", which
        splits the first, `[H, ...]` to `[A, H/A, ...]`.
      num_heads: A, for "split_last" and "split_first".
    """

    kind: Literal["same", "transpose", "split_last", "split_first"] = "same"
    num_heads: int = 1

    def shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Converts our shape to theirs."""
        if self.kind == "transpose":
            return ours[::-1]
        if self.kind == "split_last":
            return (*ours[:-1], self.num_heads, ours[-1] // self.num_heads)
        if self.kind == "split_first":
            return (self.num_heads, ours[0] // self.num_heads, *ours[1:])
        return ours

    def to_theirs(self, array: np.ndarray) -> np.ndarray:
        """Converts our array to theirs."""
        if self.kind == "transpose":
            return array.T
        return array.reshape(self.shape(array.shape))

    def to_ours(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Converts their array to ours, of `shape`."""
        return array.T if self.kind == "transpose" else array.reshape(shape)


@dataclasses.dataclass(frozen=True)
class TensorName:
    """Name and layout of a tensor in a system."""

    name: str
    transform: Transform


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a model.

    Attributes:
      component: one of `COMPONENTS`.
      path: path of our variable.
      shape: shape of our variable.
      names: system -> `TensorName`, for the systems that have this tensor.
    """

    component: str
    path: str
    shape: tuple[int, ...]
    names: dict[str, TensorName]


def tensors_of(
    config: AlbertConfig,
    components: frozenset[str] | set[str],
    num_labels: int = 1,
) -> Iterator[Tensor]:
    """Yields the tensors of a model with the given `COMPONENTS`.

    `num_labels` is the number of outputs of a classifier or token classifier.
    """
    sizes = {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "H": config.hidden_size,
        "2H": 2 * config.hidden_size,
        "4H": 4 * config.hidden_size,
        "I": config.intermediate_size,
        "P": config.max_position_embeddings,
        "T": config.type_vocab_size,
        "N": num_labels,
        "1": 1,
        "2": 2,
    }
    for component, path, kind, letters, *theirs in _LAYERS:
        if component not in components:
            continue
        shape = tuple(sizes[letter] for letter in letters.split())
        for scope in _scopes(config, path):
            for tensor, axis in _TENSORS[kind].items():
                ours = _OUR_NAMES.get(tensor, f"/{tensor}")
                ours = path.format(**scope) + ours
                names = dict(_names(config, kind, tensor, theirs, scope))
                names[OURS] = TensorName(ours, Transform())
                yield Tensor(component, ours, shape[axis:], names)


def component_of(path: str) -> str:
    """Returns the component of a variable, one of `COMPONENTS`."""
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
        elif system in _PER_HEAD and (kind, tensor) == ("from_heads", "kernel"):
            transform = Transform("split_first", config.num_attention_heads)
        suffix = _SUFFIXES[system].get(tensor, "")
        yield system, TensorName(layer.format(**scope) + suffix, transform)


def _scopes(config: AlbertConfig, path: str) -> list[dict[str, object]]:
    """Returns the values of a path's placeholders, for each set of weights.

    The outer scope is a group, or a layer if `config.sharing` does not share
    this half of a block.
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
