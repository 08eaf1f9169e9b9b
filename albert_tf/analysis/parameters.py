"""Parameter counts from the formula, without making a model."""

from __future__ import annotations

import dataclasses

from albert_tf.config import AlbertConfig


@dataclasses.dataclass(frozen=True)
class ParameterCounts:
    """Trainable parameters of the parts of a pretraining model."""

    embeddings: int
    transformer: int
    pooler: int
    mlm_head: int
    sop_head: int

    @property
    def encoder(self) -> int:
        """Embeddings, projection, blocks and pooler."""
        return self.embeddings + self.transformer + self.pooler

    @property
    def total(self) -> int:
        """Encoder and both heads; the MLM output matrix is tied."""
        return self.encoder + self.mlm_head + self.sop_head


def count_parameters(config: AlbertConfig) -> ParameterCounts:
    """Counts the parameters of `AlbertPretrainer(config)` to the unit.

    Paper, tables 1, 3 and 4; the paper rounds, and reports the widest models
    up to 6 % high (235 M for xxlarge, whose encoder has 222,595,584).
    """
    v, e = config.vocab_size, config.embedding_size
    h, i = config.hidden_size, config.intermediate_size
    tables = (v + config.type_vocab_size + config.max_position_embeddings) * e
    projection = e * h + h if config.has_embedding_projection else 0
    attention = 4 * (h * h + h) + 2 * h  # q, k, v, output, LayerNorm
    ffn = (h * i + i) + (i * h + h) + 2 * h

    def sets(shared: bool) -> int:
        groups = config.num_hidden_groups
        layers = groups if shared else config.num_hidden_layers
        return layers * config.inner_group_num

    return ParameterCounts(
        embeddings=tables + 2 * e + projection,
        transformer=sets(config.sharing in ("all", "attention")) * attention
        + sets(config.sharing in ("all", "ffn")) * ffn,
        pooler=h * h + h,
        mlm_head=h * e + e + 2 * e + v,
        sop_head=2 * h + 2,
    )
