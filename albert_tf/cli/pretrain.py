"""Pretrain a model on records: masked words and the order of sentences.

The same command, given again, resumes a run that stopped.
"""

from __future__ import annotations

import os
import time

from absl import flags

from albert_tf.cli import machine_flags, model_flags
from albert_tf.tasks.pretrain_config import OPTIMIZERS, PretrainConfig
from albert_tf.training.training_config import TrainingConfig

flags.adopt_module_key_flags(model_flags)
flags.adopt_module_key_flags(machine_flags)

_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Records: a folder made by create-data, or globs separated by commas.",
    required=True,
)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder of the run, new or to resume.", required=True
)
_INIT_FROM = flags.DEFINE_string(
    "init_from",
    None,
    "Checkpoint of any kind that a new run takes its weights from. Without "
    "--config the model is like it, but for --config_overrides; it may be "
    "deeper, have more groups or share less.",
)
_TRAIN_BATCH_SIZE = flags.DEFINE_integer(
    "train_batch_size", 4096, "Examples of a step, over all devices."
)
_EVAL_BATCH_SIZE = flags.DEFINE_integer(
    "eval_batch_size", 64, "Examples of a batch of the evaluation."
)
_MAX_EVAL_STEPS = flags.DEFINE_integer(
    "max_eval_steps", 100, "Most batches of an evaluation; 0 for all."
)
_OPTIMIZER = flags.DEFINE_enum(
    "optimizer", "lamb", OPTIMIZERS, "As the original has them."
)
_LEARNING_RATE = flags.DEFINE_float(
    "learning_rate", 0.00176, "Highest rate; the default is for batch 4096."
)
_NUM_TRAIN_STEPS = flags.DEFINE_integer(
    "num_train_steps", 125000, "Steps of the whole run."
)
_NUM_WARMUP_STEPS = flags.DEFINE_integer(
    "num_warmup_steps", 3125, "Steps in which the rate grows."
)
_START_WARMUP_STEP = flags.DEFINE_integer(
    "start_warmup_step", 0, "Step at which it begins to grow."
)
_POLY_POWER = flags.DEFINE_float(
    "poly_power", 1.0, "Power of the decay to 0 at the last step."
)
_WEIGHT_DECAY = flags.DEFINE_float(
    "weight_decay", 0.01, "Of all weights but biases and LayerNorm."
)
_CLIP_NORM = flags.DEFINE_float(
    "clip_norm", 1.0, "Largest global norm of the gradient; 0 for any."
)
_ACCUMULATION = flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Micro-batches that a device cuts its share of a step into.",
)
_STEPS_PER_LOOP = flags.DEFINE_integer(
    "steps_per_loop", 100, "Steps on the device between two looks of the host."
)
_LOG_STEPS = flags.DEFINE_integer(
    "log_steps", 100, "Steps between two lines of metrics."
)
_SAVE_STEPS = flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "Steps between two checkpoints."
)
_EVAL_STEPS = flags.DEFINE_integer(
    "eval_steps", 1000, "Steps between two evaluations; 0: at the end only."
)
_KEEP = flags.DEFINE_integer(
    "keep_checkpoint_max", 5, "How many of the newest checkpoints stay."
)
_SEED = flags.DEFINE_integer("seed", 0, "Of weights, order and dropout.")


def main() -> None:
    """Runs the pretraining that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.tasks.pretrain import pretrain

    precision = machine_flags.PRECISION.value
    # Unless told, a model is like the checkpoint it starts from.
    like_checkpoint = _INIT_FROM.value and not model_flags.CONFIG.present
    config = PretrainConfig(
        input_patterns=_INPUT.value,
        output_dir=_OUTPUT.value,
        model=None if like_checkpoint else model_flags.model_config(),
        init_from=_INIT_FROM.value,
        model_changes=model_flags.changes() if like_checkpoint else {},
        training=TrainingConfig(
            total_steps=_NUM_TRAIN_STEPS.value,
            steps_per_loop=_STEPS_PER_LOOP.value,
            gradient_accumulation_steps=_ACCUMULATION.value,
            clip_norm=_CLIP_NORM.value,
            seed=_SEED.value,
            log_steps=_LOG_STEPS.value,
            save_steps=_SAVE_STEPS.value,
            eval_steps=_EVAL_STEPS.value,
            keep_checkpoints=_KEEP.value,
            dynamic_loss_scale=precision == "mixed_float16",
        ),
        train_batch_size=_TRAIN_BATCH_SIZE.value,
        eval_batch_size=_EVAL_BATCH_SIZE.value,
        max_eval_steps=_MAX_EVAL_STEPS.value,
        optimizer=_OPTIMIZER.value,
        learning_rate=_LEARNING_RATE.value,
        num_warmup_steps=_NUM_WARMUP_STEPS.value,
        start_warmup_step=_START_WARMUP_STEP.value,
        poly_power=_POLY_POWER.value,
        weight_decay=_WEIGHT_DECAY.value,
        precision=precision,
        distribution=machine_flags.DISTRIBUTION.value,
        tpu=machine_flags.TPU.value,
        tpu_zone=machine_flags.TPU_ZONE.value,
        gcp_project=machine_flags.GCP_PROJECT.value,
    )
    started = time.monotonic()
    result = pretrain(
        config, files={"flags.txt": flags.FLAGS.flags_into_string()}
    )
    if result.interrupted:
        return
    minutes = (time.monotonic() - started) / 60
    scores = ", ".join(
        f"{name} {value:.4f}" for name, value in result.evaluation.items()
    )
    print(f"{result.steps} steps done, {minutes:.1f} minutes this time")
    if scores:
        print(f"held out: {scores}")
    print(f"wrote {os.fspath(_OUTPUT.value)}")
