"""Layer-wise learning rates."""

from __future__ import annotations

import re
from collections.abc import Iterable

from albert_tf.config import AlbertConfig

_EMBEDDINGS = re.compile(r"encoder/(embeddings|embedding_projection)/")
_LAYERS = re.compile(r"encoder/transformer/(group|layer)_(\d+)/")


def layerwise_rates(
    config: AlbertConfig, names: Iterable[str], decay: float
) -> dict[str, float]:
    """Returns layer-wise factors on the learning rate, by variable name.

    A variable `d` levels below the top has the factor `decay ** d`, as in BEiT
    (arXiv:2106.08254) and, except for the numbering at the top, in ELECTRA's
    fine-tuning (arXiv:2003.10555). The top level, with factor 1, is everything
    above the stack: pooler and heads. The lowest level is the embeddings with
    their projection, including the word embeddings that the MLM head shares.

    Shared weights have one rate. If `config.sharing` is "all", each group is a
    level: with one group, the block is one level below the top and the
    embeddings two. Otherwise each layer is a level, and weights that a group
    shares have the level of its last layer. Inner blocks are one level.
    """
    levels = _stack_levels(config)
    top = 1 + max(levels.values())

    def level(name: str) -> int:
        if _EMBEDDINGS.match(name):
            return 0
        scope = _LAYERS.match(name)
        return levels[f"{scope[1]}_{scope[2]}"] if scope else top

    return {name: decay ** (top - level(name)) for name in names}


def _stack_levels(config: AlbertConfig) -> dict[str, int]:
    """Returns the level (from 1) of each group or layer scope."""
    attention, ffn = (config.block_scopes(h) for h in ("attention", "ffn"))
    pairs = [(a, f) for (a, _), (f, _) in zip(attention, ffn, strict=True)]
    # One pair per layer or, if everything is shared, per group, in order. A
    # scope of several layers has the level of the last one.
    return {
        scope: number
        for number, pair in enumerate(dict.fromkeys(pairs), start=1)
        for scope in pair
    }
