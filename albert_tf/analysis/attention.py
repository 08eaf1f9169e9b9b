"""Attention maps of each head of each layer, and statistics of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.analysis.encoders import Model, open_encoders
from albert_tf.analysis.figures import import_pyplot, save_figure
from albert_tf.errors import InputError
from albert_tf.tables import escaped, markdown_table

_MAX_MAPS = 400  # in a figure
_MAX_LABELLED_TOKENS = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionReport:
    """The attention of a model to one text, or pair of texts.

    Layers and heads are numbered from 1. With inner groups, each block counts
    as a layer. Statistics, `[layers, heads]`, are means over the tokens that
    attend.

    Attributes:
      name: name of the model.
      tokens: pieces, including `[CLS]` and `[SEP]`.
      cut: number of tokens that were truncated.
      layers: numbers of the layers.
      heads: numbers of the heads.
      probabilities: float32 `[layers, heads, from, to]`; a row sums to 1.
      entropy: entropy of the attention in bits; 0 if it all goes to one token.
      distance: mean distance to the tokens attended to, in tokens.
      to_cls: share of the attention to `[CLS]`.
      to_sep: share of the attention to the separators.
      to_itself: share of the attention of tokens to themselves.
    """

    name: str
    tokens: tuple[str, ...]
    cut: int
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    probabilities: np.ndarray
    entropy: np.ndarray
    distance: np.ndarray
    to_cls: np.ndarray
    to_sep: np.ndarray
    to_itself: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON values, rounded to 5 decimals."""
        return {
            field.name: value.astype(np.float64).round(5).tolist()
            if isinstance(value := getattr(self, field.name), np.ndarray)
            else value
            for field in dataclasses.fields(self)
        }

    def table(self) -> str:
        """Formats the statistics as a Markdown table with a row per head."""
        header = ["layer", "head", "entropy, bits", "distance, tokens"]
        header += ["to [CLS]", "to [SEP]", "to itself"]
        rows = [
            [
                f"{layer}",
                f"{head}",
                f"{self.entropy[i, j]:.2f}",
                f"{self.distance[i, j]:.1f}",
                f"{self.to_cls[i, j]:.0%}",
                f"{self.to_sep[i, j]:.0%}",
                f"{self.to_itself[i, j]:.0%}",
            ]
            for i, layer in enumerate(self.layers)
            for j, head in enumerate(self.heads)
        ]
        return markdown_table(header, rows)

    def plot(self, output: str | os.PathLike[str]) -> None:
        """Draws a map for each head, with layers from top to bottom.

        Args:
          output: image file to write; its suffix selects the format.

        Raises:
          InputError: if there are too many maps, the file cannot be written, or
            matplotlib is not installed.
        """
        count = len(self.layers) * len(self.heads)
        if count > _MAX_MAPS:
            raise InputError(
                f"{count} maps do not fit in a figure, which has at most "
                f"{_MAX_MAPS}; choose layers= or heads="
            )
        pyplot = import_pyplot()
        labelled = len(self.tokens) <= _MAX_LABELLED_TOKENS
        # Size of a map in inches, large enough for its labels if there are few.
        size = 1.1 if count > 16 else min(3.2, max(1.6, len(self.tokens) / 9))
        figure, axes = pyplot.subplots(
            len(self.layers),
            len(self.heads),
            figsize=(
                size * len(self.heads) + 2.2,
                size * len(self.layers) + 1.4,
            ),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        image = None
        for i, layer in enumerate(self.layers):
            for j, head in enumerate(self.heads):
                axis = axes[i, j]
                image = axis.imshow(
                    self.probabilities[i, j],
                    cmap="Blues",
                    vmin=0,
                    vmax=self.probabilities.max(),
                )
                axis.spines[:].set_linewidth(0.4)
                axis.tick_params(length=0)
                if i == 0:
                    axis.set_title(f"head {head}", size=9)
                if j == len(self.heads) - 1:
                    axis.yaxis.set_label_position("right")
                    axis.set_ylabel(f"layer {layer}", size=9)
        if labelled:
            ticks = range(len(self.tokens))
            labels = [escaped(token) for token in self.tokens]
            # The largest font size in points at which labels do not overlap.
            points = min(8.0, 72 * size * 0.9 / len(self.tokens))
            text = {"fontsize": points, "parse_math": False}
            for axis in axes[:, 0]:
                axis.set_yticks(ticks, labels, **text)
            for axis in axes[-1]:
                axis.set_xticks(ticks, labels, rotation=90, **text)
        figure.supylabel("from", size=10)
        figure.supxlabel("to", size=10)
        figure.colorbar(
            image,
            ax=axes,
            label="share of the attention",
            shrink=0.6,
            aspect=30,
            pad=0.01,
        )
        save_figure(figure, output)


def analyze_attention(
    model: Model,
    text: str,
    pair: str | None = None,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    max_seq_length: int = 128,
) -> AttentionReport:
    """Returns the attention of each head of each layer to a text.

    For example:

        report = analyze_attention(
            "albert/albert-base-v2", "The cat sat down, because it was tired."
        )
        report.plot("attention.png")

    Args:
      model: a checkpoint of any supported format, or a model.
      text: the text. `[MASK]` in it is the mask token.
      pair: second text of a pair.
      layers: layers to return, from 1; None for all.
      heads: heads to return, from 1; None for all.
      max_seq_length: maximum number of tokens; longer texts are truncated, also
        to the length that the model was trained with.

    Raises:
      InputError: if the checkpoint cannot be opened, a text is empty, or a
        layer or head does not exist.
    """
    (found,) = open_encoders([model])
    matching = found.tokenizer.with_settings(match_special_tokens=True)
    found = dataclasses.replace(found, tokenizer=matching)
    encoder, config = found.encoder, found.encoder.config
    layers = _numbers(
        "layers", layers, config.num_hidden_layers * config.inner_group_num
    )
    heads = _numbers("heads", heads, config.num_attention_heads)
    texts = [text] if pair is None else [text, pair]
    counts = [len(found.tokenizer.encode(x)) for x in texts]
    for name, count in zip(("text", "pair"), counts, strict=False):
        if not count:
            raise InputError(f"{name} is empty: it has no token to attend to")
    inputs = found.encode(
        [text], pair and [pair], max_seq_length=max_seq_length
    )
    ids = inputs["input_word_ids"][0].tolist()
    rows, layout = encoder.embed(inputs)
    _, attentions = encoder.stack(rows, layout=layout, output_attentions=True)
    probs = np.stack(
        [keras.ops.convert_to_numpy(attentions[x - 1])[0] for x in layers]
    )[:, [x - 1 for x in heads]].astype(np.float32)
    if not np.isfinite(probs).all():
        raise InputError(f"the attention of {found.name} is not finite")
    positions = np.arange(len(ids))
    is_sep = np.array(ids) == found.tokenizer.sep_id
    bits = np.where(probs > 0, -np.log2(np.where(probs > 0, probs, 1)), 0)
    return AttentionReport(
        name=found.name,
        tokens=tuple(found.tokenizer.convert_ids_to_tokens(ids)),
        cut=sum(counts) + len(texts) + 1 - len(ids),
        layers=layers,
        heads=heads,
        probabilities=probs,
        entropy=(probs * bits).sum(-1).mean(-1),
        distance=(probs * abs(positions - positions[:, None])).sum(-1).mean(-1),
        to_cls=probs[..., 0].mean(-1),
        to_sep=probs[..., is_sep].sum(-1).mean(-1),
        to_itself=np.diagonal(probs, axis1=-2, axis2=-1).mean(-1),
    )


def _numbers(
    name: str, chosen: Sequence[int] | None, count: int
) -> tuple[int, ...]:
    """Returns the chosen layers or heads in ascending order, or all."""
    if chosen is None:
        return tuple(range(1, count + 1))
    numbers = tuple(sorted(set(chosen)))
    if not numbers or not all(
        isinstance(x, (int, np.integer)) and 1 <= x <= count for x in numbers
    ):
        raise InputError(
            f"{name}={','.join(map(str, chosen))} must be numbers from 1 to "
            f"{count}, the number that the model has"
        )
    return numbers
