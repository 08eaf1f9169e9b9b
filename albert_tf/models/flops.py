"""Floating-point operations of pretraining, by formula.

Only matrix products count, `2 * m * k * n` operations for `[m, k] x [k, n]`.
The rest of a step (LayerNorm, softmax, GELU, lookups, the optimizer) needs few
operations in comparison, and is not limited by them.
"""

from __future__ import annotations

from albert_tf.config import AlbertConfig


def pretraining_step_flops(
    config: AlbertConfig,
    length: int,
    predictions: int,
    sentence_order: bool = True,
    sequences: int = 1,
) -> int:
    """Returns the operations of an example in a training step.

    Padding is included, as it is computed. The last block only computes the
    rows that the heads read. The gradient of a product takes two products of
    the same size. Recomputation by rematerialization is not included.

    Args:
      config: the architecture.
      length: number of tokens, including padding.
      predictions: number of masked positions.
      sentence_order: whether the pooler and the SOP head are computed.
      sequences: maximum number of sequences per row.
    """
    read = predictions + sequences  # the first token of each sequence
    forward = encoder_flops(config, length, read)
    forward += mlm_head_flops(config, predictions)
    if sentence_order:
        forward += sentence_order_flops(config, sequences)
    return 3 * forward


def encoder_flops(config: AlbertConfig, length: int, read: int) -> int:
    """Returns the operations of a sequence's forward pass in the encoder.

    Args:
      config: the architecture.
      length: number of tokens, including padding.
      read: number of positions of the last block that are computed.
    """
    e, h, i = (
        config.embedding_size,
        config.hidden_size,
        config.intermediate_size,
    )
    blocks = config.num_hidden_layers * config.inner_group_num
    products = length * e * h if config.has_embedding_projection else 0
    products += (blocks - 1) * _block(length, length, h, i)
    products += _block(read, length, h, i)
    return 2 * products


def mlm_head_flops(config: AlbertConfig, predictions: int) -> int:
    """Returns the operations of the masked-word head's forward pass."""
    e, h = config.embedding_size, config.hidden_size
    return 2 * predictions * (h * e + e * config.vocab_size)


def sentence_order_flops(config: AlbertConfig, sequences: int) -> int:
    """Returns the operations of pooler and SOP head in the forward pass."""
    h = config.hidden_size
    return 2 * sequences * (h * h + 2 * h)


def _block(rows: int, length: int, hidden: int, intermediate: int) -> int:
    """Returns a block's multiplications, for `rows` of `length` positions."""
    keys_and_values = 2 * length * hidden * hidden
    query_and_output = 2 * rows * hidden * hidden
    scores_and_context = 2 * rows * length * hidden
    feed_forward = 2 * rows * hidden * intermediate
    return (
        keys_and_values + query_and_output + scores_and_context + feed_forward
    )
