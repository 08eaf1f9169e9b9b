"""Memory of a pretraining step, estimated without building a model."""

from __future__ import annotations

import dataclasses

from albert_tf.analysis.parameters import count_parameters
from albert_tf.config import AlbertConfig

# Bytes per activation. Variables are always float32.
COMPUTE_BYTES = {"float32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}

# Number of tensors `[tokens, intermediate_size]` that the gradient of an
# activation function needs besides its result; see `layers.recomputed`.
_ACTIVATION_TENSORS = {
    "gelu_tanh": 1,
    "gelu_erf": 4,
    "relu": 0,
    "tanh": 0,
    "linear": 0,
}

# Temporary tensors of a variable's size in an update: the clipped gradient, the
# two new moments, the update before and after weight decay, and the update
# times the learning rate. On CPUs, all variables are updated at the same time.
_UPDATE_TENSORS = 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Bytes of one pretraining step on one device.

    Activations are those of one micro-batch that the backward pass needs. Those
    whose size depends on neither tokens nor predictions are not counted.

    Attributes:
      weights: trainable variables.
      gradients: the gradient as it is reduced and clipped, plus its sum over
        micro-batches, if any.
      slots: both moments of AdamW or LAMB.
      embeddings: lookup, LayerNorm and projection E -> H.
      blocks: all blocks; only their inputs if they are rematerialized.
      recomputed: one block, which the backward pass computes again; 0 without
        rematerialization.
      mlm_head: transformation and logits.
      working: temporary tensors of the backward pass: the gradients of the
        logits or of one block, whichever is larger.
      update: temporary tensors of clipping and the optimizer, after the
        activations are freed.
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
        """Activations kept from the forward to the backward pass."""
        return self.embeddings + self.blocks + self.recomputed + self.mlm_head

    @property
    def total(self) -> int:
        """Peak memory of a step."""
        return self.weights + self.slots + self.step

    @property
    def step(self) -> int:
        """Peak memory of a step besides weights and moments."""
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
    """Estimates the memory of a training step of `AlbertPretrainer(config)`.

    Args:
      config: the architecture.
      batch_size: examples per step on one device.
      seq_length: tokens per example, including padding.
      predictions: masked positions per example.
      precision: a key of `COMPUTE_BYTES`.
      rematerialize: whether blocks keep only their inputs.
      accumulation: number of micro-batches per step.
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
    # The last block counts as a whole, although it computes few rows.
    kept = count * (inputs if rematerialize else block)
    logits = picks * v * 4
    # The gradient of the loss, and the same times the weight of the loss.
    logits_gradients = 2 * logits
    block_gradients = tokens * config.intermediate_size * size * 3
    return TrainingMemory(
        weights=parameters,
        # Accumulation keeps the sum and the newest gradient.
        gradients=parameters * (2 if accumulation > 1 else 1),
        slots=2 * parameters,
        embeddings=tokens * e * (4 + size + dropped),
        blocks=kept,
        recomputed=block if rematerialize else 0,
        mlm_head=logits + picks * e * (4 + 3 * size),
        # The gradients of the logits are freed before a block is recomputed.
        working=max(
            logits_gradients - (block if rematerialize else 0), block_gradients
        ),
        update=_UPDATE_TENSORS * parameters,
    )


def _block(config: AlbertConfig, batch: int, length: int, size: int) -> int:
    """Returns the bytes kept for the gradient of one block and its input."""
    tokens = batch * length
    h, i = config.hidden_size, config.intermediate_size
    scores = batch * config.num_attention_heads * length**2
    # Query, key, value and context; the inputs of attention, feed-forward and
    # both LayerNorms.
    rows = 8 * size
    # Softmax is float32; dropout applies to its result in compute precision.
    probabilities = 4 if size == 4 else 4 + size
    if config.hidden_dropout_prob:
        rows += 2  # Two masks of one byte.
    if config.attention_probs_dropout_prob:
        probabilities = 4 + 1 + size
    activation = 1 + _ACTIVATION_TENSORS[config.hidden_act]
    return (
        tokens * h * rows
        + scores * probabilities
        + tokens * i * activation * size
    )
