"""Flags of the training loop, alike for every kind of training."""

from __future__ import annotations

from typing import Any

from absl import flags

from albert_tf.cli import machine_flags
from albert_tf.training import choices
from albert_tf.training.training_config import TrainingConfig

# Optimizer, length of the run, evaluations and how many checkpoints stay are
# flags of the commands: their defaults differ.

GRADIENT_ACCUMULATION_STEPS = flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Micro-batches that a device cuts its share of a step into, for less "
    "memory.",
)
SEED = flags.DEFINE_integer(
    "seed", 0, "Seed of new weights, order of examples and dropout."
)
LAYERWISE_LR_DECAY = flags.DEFINE_float(
    "layerwise_lr_decay",
    1.0,
    "Factor on the rate from each level of the model to the one below; 1: all "
    "have one rate.",
)
WEIGHT_DECAY = flags.DEFINE_float(
    "weight_decay", 0.01, "Decay of all weights but biases and LayerNorm."
)
CLIP_NORM = flags.DEFINE_float(
    "clip_norm", 1.0, "Largest global norm of the gradient; 0: no clipping."
)
EMA_DECAY = flags.DEFINE_float(
    "ema_decay",
    0.0,
    "Average the weights with this decay, and evaluate and keep or export the "
    "averages; 0: do not.",
)
REMATERIALIZE = flags.DEFINE_boolean(
    "rematerialize",
    False,
    "Less memory, about a third slower: keep of each block its input only.",
)
JIT_COMPILE = flags.DEFINE_boolean(
    "jit_compile",
    False,
    "Compile the step with XLA, on one CPU or GPU; a TPU compiles anyway. "
    "Fine-tuning then pads all rows.",
)
STEPS_PER_LOOP = flags.DEFINE_integer(
    "steps_per_loop",
    100,
    "Most steps on the device before the host looks for signals.",
)
LOG_STEPS = flags.DEFINE_integer(
    "log_steps", 100, "Steps between two lines of metrics."
)
SAVE_STEPS = flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "Steps between two checkpoints."
)
ON_DIVERGENCE = flags.DEFINE_enum(
    "on_divergence",
    "stop",
    choices.ON_DIVERGENCE,
    "What a loss that is not finite, or above pretraining's --max_loss, does: "
    "stop, or go back to a checkpoint and leave out the batches that led "
    "there.",
)


def training_config(**others: Any) -> TrainingConfig:
    """Returns the settings of the loop.

    Args:
      **others: those that these flags do not have.
    """
    return TrainingConfig(
        gradient_accumulation_steps=GRADIENT_ACCUMULATION_STEPS.value,
        seed=SEED.value,
        clip_norm=CLIP_NORM.value,
        ema_decay=EMA_DECAY.value,
        jit_compile=JIT_COMPILE.value,
        steps_per_loop=STEPS_PER_LOOP.value,
        log_steps=LOG_STEPS.value,
        save_steps=SAVE_STEPS.value,
        on_divergence=ON_DIVERGENCE.value,
        dynamic_loss_scale=machine_flags.PRECISION.value == "mixed_float16",
        **others,
    )
