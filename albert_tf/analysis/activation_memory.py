"""Memory of a pretraining step, estimated by formula without a model."""

from __future__ import annotations

import dataclasses

from albert_tf.analysis.parameters import count_parameters
from albert_tf.config import AlbertConfig

# Bytes of a number that is computed with; variables are always float32.
COMPUTE_BYTES = {"float32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}

# The tensors of I features that the gradient of an activation needs, besides
# its result; see `layers.recomputed`.
_ACTIVATION_TENSORS = {
    "gelu_tanh": 1,
    "gelu_erf": 4,
    "relu": 0,
    "tanh": 0,
    "linear": 0,
}

# Tensors of a variable's size, besides its gradient: that clipped, both moments
# anew, the update, the update with decay, and what is subtracted. On CPUs, all
# variables are updated at the same time.
_UPDATE_TENSORS = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Bytes of one pretraining step on one device.

    The activations are those that the backward pass needs, of one micro-batch.
    The largest of them are counted; what grows with neither the tokens nor the
    predictions is not.

    Attributes:
      weights, gradients, slots: the trainable variables, the gradient as it is
        reduced and clipped (and summed over micro-batches), and the two moments
        of AdamW and LAMB.
      embeddings: lookup, LayerNorm and the projection E -> H.
      blocks: all blocks; their inputs alone if they are rematerialized.
      recomputed: one block, which the backward pass computes again; 0 without
        rematerialization.
      mlm_head: transformation and logits.
      working: what is alive for a moment in the backward pass: the largest of
        the gradients of the logits and of one block.
      update: what clipping and the optimizer need besides, when the activations
        are gone.
    """

    weights: int
    gradients: int
    slots: int
    embeddings: int
    blocks: int
    recomputed: int
    mlm_head: int
    working: int
    update: int

    @property
    def activations(self) -> int:
        """What is kept from the forward to the backward pass."""
        return self.embeddings + self.blocks + self.recomputed + self.mlm_head

    @property
    def total(self) -> int:
        """All of it: the peak of a step."""
        return self.weights + self.slots + self.step

    @property
    def step(self) -> int:
        """What a step needs besides weights and moments."""
        return self.gradients + max(
            self.activations + self.working, self.update
        )


def training_memory(
    config: AlbertConfig,
    *,
    batch_size: int,
    seq_length: int,
    predictions: int,
    precision: str = "float32",
    rematerialize: bool = False,
    accumulation: int = 1,
) -> TrainingMemory:
    """Returns the memory of a step of `AlbertPretrainer(config)`.

    Args:
      config: the architecture.
      batch_size: examples of a step on one device.
      seq_length: tokens of an example, padding included.
      predictions: masked positions of an example.
      precision: a key of `COMPUTE_BYTES`.
      rematerialize: whether blocks keep their inputs only.
      accumulation: micro-batches that the examples are cut into.
    """
    parameters = 4 * count_parameters(config).total
    micro_batch = -(-batch_size // accumulation)
    tokens = micro_batch * seq_length
    picks = micro_batch * predictions
    size = COMPUTE_BYTES[precision]
    v, e, h = config.vocab_size, config.embedding_size, config.hidden_size
    dropped = 1 if config.hidden_dropout_prob else 0

    block = _block(config, micro_batch, seq_length, size)
    inputs = tokens * h * size
    count = config.num_hidden_layers * config.inner_group_num
    # The last block, which computes few rows, counts as one.
    kept = count * (inputs if rematerialize else block)
    logits = picks * v * 4
    # Logits, their gradient by the loss, and that times the loss's weight.
    of_logits = 2 * logits
    of_block = tokens * config.intermediate_size * size * 3
    return TrainingMemory(
        weights=parameters,
        # Accumulation adds a second set: the sum and the newest summand.
        gradients=parameters * (2 if accumulation > 1 else 1),
        slots=2 * parameters,
        embeddings=tokens * e * (4 + size + dropped),
        blocks=kept,
        recomputed=block if rematerialize else 0,
        mlm_head=logits + picks * e * (4 + 3 * size),
        # The gradient of the logits is gone before the blocks are recomputed.
        working=max(of_logits - (block if rematerialize else 0), of_block, 0),
        update=_UPDATE_TENSORS * parameters,
    )


def _block(config: AlbertConfig, batch: int, length: int, size: int) -> int:
    """Bytes that the gradient of one block needs, its input included."""
    tokens = batch * length
    h, i = config.hidden_size, config.intermediate_size
    scores = batch * config.num_attention_heads * length**2
    # Query, key, value, context; the inputs of both halves.
    rows = 6 * size
    # The inputs of the two LayerNorms.
    rows += 2 * size
    # Softmax is float32; its result is cast, and dropped.
    probabilities = 4 if size == 4 else 4 + size
    if config.hidden_dropout_prob:
        rows += 2  # A mask is a byte.
    if config.attention_probs_dropout_prob:
        probabilities = 4 + 1 + size
    activation = 1 + _ACTIVATION_TENSORS[config.hidden_act]
    return (
        tokens * h * rows
        + scores * probabilities
        + tokens * i * activation * size
    )
