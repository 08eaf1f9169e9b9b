"""Floating-point operations of matrix products, by formula.

Counted as usual: a product `[m, k] x [k, n]` is `2 * m * k * n` operations.
Products are all that is counted; the rest of a step (LayerNorm, softmax, GELU,
look-ups, the optimizer) is small beside them and does not run at their speed.
"""

from __future__ import annotations

from albert_tf.config import AlbertConfig


def pretraining_forward_flops(
    config: AlbertConfig,
    length: int,
    predictions: int,
    sentence_order: bool = True,
    sequences: int = 1,
) -> int:
    """Counts the products of one example's way through `AlbertPretrainer`.

    Padding counts, since the padded rows of the model are computed. The last
    block counts the rows that the heads read: it computes no others.

    Args:
      config: the architecture.
      length: tokens of the example, padding included.
      predictions: masked positions of the example.
      sentence_order: whether pooler and SOP head are computed.
      sequences: sequences that the example has room for.
    """
    e, h, i = (
        config.embedding_size,
        config.hidden_size,
        config.intermediate_size,
    )
    blocks = config.num_hidden_layers * config.inner_group_num
    read = predictions + sequences  # of which the first tokens are read
    products = length * e * h if config.has_embedding_projection else 0
    products += (blocks - 1) * _block(length, length, h, i)
    products += _block(read, length, h, i)
    products += predictions * (h * e + e * config.vocab_size)
    if sentence_order:
        products += sequences * (h * h + 2 * h)
    return 2 * products


def pretraining_step_flops(
    config: AlbertConfig,
    length: int,
    predictions: int,
    sentence_order: bool = True,
    sequences: int = 1,
) -> int:
    """Counts the products of one example in a training step.

    The gradient of a product is two products of its size, one for each factor.
    What rematerialization computes again is not counted. For the arguments, see
    `pretraining_forward_flops`.
    """
    return 3 * pretraining_forward_flops(
        config, length, predictions, sentence_order, sequences
    )


def _block(rows: int, length: int, hidden: int, intermediate: int) -> int:
    """Multiplications of a block that computes `rows` of `length` positions."""
    keys_and_values = 2 * length * hidden * hidden
    query_and_output = 2 * rows * hidden * hidden
    scores_and_context = 2 * rows * length * hidden
    feed_forward = 2 * rows * hidden * intermediate
    return (
        keys_and_values + query_and_output + scores_and_context + feed_forward
    )
