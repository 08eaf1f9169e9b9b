"""Parameter counts of architectures, computed without building a model."""

from __future__ import annotations

import collections
import dataclasses
import math
import os
from collections.abc import Mapping

from albert_tf.analysis.figures import COLOURS, import_pyplot, save_figure
from albert_tf.config import AlbertConfig
from albert_tf.interop.names import tensors_of

# Devlin et al., 2018: neither factorized embeddings nor shared layers.
BERT = {
    "bert_base": AlbertConfig(
        vocab_size=30522, embedding_size=768, sharing="none"
    ),
    "bert_large": AlbertConfig(
        vocab_size=30522,
        embedding_size=1024,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        sharing="none",
    ),
}
# Table 1 of the paper, in millions.
PAPER = {
    "bert_base": 108,
    "bert_large": 334,
    "albert_base_v2": 12,
    "albert_large_v2": 18,
    "albert_xlarge_v2": 60,
    "albert_xxlarge_v2": 235,
}


@dataclasses.dataclass(frozen=True)
class ParameterCounts:
    """Numbers of trainable parameters of a pretraining model, by component.

    Attributes:
      embeddings: word, position and token type tables, and LayerNorm.
      projection: E -> H (paper, section 3.1); 0 without a projection.
      attention: query, key, value, output and LayerNorm of all layers.
      feed_forward: both dense layers and LayerNorm of all layers.
      pooler: dense layer of `[CLS]`.
      mlm_head: without its output matrix, which is the word table.
      sop_head: sentence-order head.
    """

    embeddings: int
    projection: int
    attention: int
    feed_forward: int
    pooler: int
    mlm_head: int
    sop_head: int

    @property
    def encoder(self) -> int:
        """Parameters of embeddings, projection, blocks and pooler."""
        return (
            self.embeddings
            + self.projection
            + self.attention
            + self.feed_forward
            + self.pooler
        )

    @property
    def total(self) -> int:
        """Parameters of the encoder and both heads."""
        return self.encoder + self.mlm_head + self.sop_head


def count_parameters(config: AlbertConfig) -> ParameterCounts:
    """Counts the parameters of `AlbertPretrainer(config)` exactly.

    See tables 1, 3 and 4 of the paper, which rounds, and reports up to 6 % more
    for the widest models (235 M for xxlarge, whose encoder has 222,595,584).
    """
    counts = collections.Counter(
        {field.name: 0 for field in dataclasses.fields(ParameterCounts)}
    )
    components = {"encoder", "pooler", "mlm_head", "sop_head"}
    if config.has_embedding_projection:
        components.add("projection")
    for tensor in tensors_of(config, components):
        scopes = tensor.path.split("/")
        part = next((x for x in scopes[1:] if x in counts), tensor.component)
        counts[part] += math.prod(tensor.shape)
    return ParameterCounts(**counts)


def parameter_table(configs: Mapping[str, AlbertConfig]) -> str:
    """Formats parameters by component as a table, with the paper's totals."""
    names = [field.name for field in dataclasses.fields(ParameterCounts)]
    columns = [*names[:5], "encoder", *names[5:]]
    width = max(20, *map(len, configs))
    lines = [f"{'config':{width}} {_cells(columns)} {'paper':>6}"]
    for name, config in configs.items():
        counts = count_parameters(config)
        cells = _cells([f"{getattr(counts, x):,}" for x in columns])
        paper = f"{PAPER[name]} M" if _is_in_paper(name, config) else ""
        lines.append(f"{name:{width}} {cells} {paper:>6}".rstrip())
    return "\n".join(lines)


def _is_in_paper(name: str, config: AlbertConfig) -> bool:
    return name in PAPER and config == (
        BERT.get(name) or AlbertConfig.from_official(name)
    )


def _cells(texts: list[str]) -> str:
    return " ".join(f"{text:>12}" for text in texts)


def plot_parameters(
    configs: Mapping[str, AlbertConfig], output: str | os.PathLike[str]
) -> None:
    """Draws the components of encoders as stacked bars.

    `configs` has the architecture of each bar by its name. The suffix of
    `output` selects the format.
    """
    pyplot = import_pyplot()
    figure, axis = pyplot.subplots(
        figsize=(8, 1.2 + 0.36 * len(configs)), layout="constrained"
    )
    counts = [count_parameters(config) for config in configs.values()]
    ends = [0.0] * len(counts)
    components = [x.name for x in dataclasses.fields(ParameterCounts)][:5]
    for component, colour in zip(components, COLOURS, strict=False):
        sizes = [getattr(count, component) / 1e6 for count in counts]
        axis.barh(
            list(configs),
            sizes,
            left=ends,
            color=colour,
            label=component.replace("_", " "),
        )
        ends = [end + size for end, size in zip(ends, sizes, strict=True)]
    for row, end in enumerate(ends):
        axis.annotate(
            f" {end:.1f} M", (end, row), va="center", fontsize="small"
        )
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_xlim(left=0)
    axis.set_xlabel("parameters of the encoder, millions")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize="small", frameon=False)
    save_figure(figure, output)
