"""Learning rates that decay from the top of a model to its embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterable

from albert_tf.config import AlbertConfig

_EMBEDDINGS = re.compile(r"encoder/(embeddings|embedding_projection)/")
_LAYERS = re.compile(r"encoder/transformer/(group|layer)_(\d+)/")


def layerwise_rates(
    config: AlbertConfig, names: Iterable[str], decay: float
) -> dict[str, float]:
    """Returns what the learning rate of each variable is multiplied by.

    A variable `d` levels below the top has `decay ** d`, as in BEiT
    (arXiv:2106.08254) and, with other counting at the top, in ELECTRA's
    fine-tuning (arXiv:2003.10555). The top, with 1, is all that is no part of
    the stack: pooler and heads. Below it come the levels of the stack, and last
    the embeddings with their projection. The word embeddings that the MLM head
    shares are embeddings.

    Weights that layers share have one rate. Where `config.sharing` is "all", a
    level is a group: with one group, the block is one level below the top and
    the embeddings two. Otherwise a level is a layer, and what a group shares
    has the level of the group's last layer. Inner blocks are one level.

    Args:
      config: the architecture.
      names: of variables, such as `encoder/pooler/kernel`.
      decay: in (0, 1].
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
    """Returns the level, from 1, of each outer scope of the stack."""
    attention, ffn = (config.block_scopes(h) for h in ("attention", "ffn"))
    pairs = [(a, f) for (a, _), (f, _) in zip(attention, ffn, strict=True)]
    # One entry a layer or, where all is shared, a group, in order; a scope of
    # several layers keeps the last of its levels.
    return {
        scope: number
        for number, pair in enumerate(dict.fromkeys(pairs), start=1)
        for scope in pair
    }
