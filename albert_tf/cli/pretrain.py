"""Pretrain a model on records: masked words, order of sentences.

The same command, given again, resumes a run that stopped.
"""

from __future__ import annotations

import os
import time

from absl import flags

from albert_tf.cli import machine_flags, model_flags, training_flags
from albert_tf.tasks.pretrain_config import (
    METRICS,
    OPTIMIZERS,
    SCHEDULES,
    PretrainConfig,
)

flags.adopt_module_key_flags(model_flags)
flags.adopt_module_key_flags(machine_flags)
flags.adopt_module_key_flags(training_flags)

_INPUT = flags.DEFINE_string(
    "input",
    None,
    "Records: a folder made by create-data, or globs separated by commas; "
    "required.",
    required=True,
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder of the run, new or to resume; required.",
    required=True,
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
    "optimizer", "lamb", OPTIMIZERS, "LAMB or AdamW, as the original has them."
)
_LEARNING_RATE = flags.DEFINE_float(
    "learning_rate", 0.00176, "Highest rate; the default is for batch 4096."
)
_NUM_TRAIN_STEPS = flags.DEFINE_integer(
    "num_train_steps", 125000, "Steps of the whole run."
)
_NUM_WARMUP_STEPS = flags.DEFINE_integer(
    "num_warmup_steps",
    3125,
    "First steps, in which the rate grows to --learning_rate.",
)
_START_WARMUP_STEP = flags.DEFINE_integer(
    "start_warmup_step", 0, "polynomial: step at which the warm-up begins."
)
_SCALE_LR_WITH_BATCH = flags.DEFINE_boolean(
    "scale_lr_with_batch",
    False,
    "Learning rate and warm-up are for --reference_batch_size: scale the rate "
    "with the root of the batch size, the warm-up's share of the run with it.",
)
_REFERENCE_BATCH_SIZE = flags.DEFINE_integer(
    "reference_batch_size", 4096, "See --scale_lr_with_batch."
)
_SCHEDULE = flags.DEFINE_enum(
    "schedule",
    "polynomial",
    SCHEDULES,
    "After the warm-up: the original's decay, with a jump; a line or a cosine "
    "down; or constant, to be made longer or ended by --decay_steps on resume.",
)
_FINAL_LR_FRACTION = flags.DEFINE_float(
    "final_lr_fraction",
    0.0,
    "cosine: rate at the last step, as a fraction of the highest.",
)
_DECAY_STEPS = flags.DEFINE_integer(
    "decay_steps",
    0,
    "warmup_stable_decay: last steps, in which the rate falls to 0; 0: it "
    "stays constant.",
)
_LOG_UPDATE_NORMS = flags.DEFINE_boolean(
    "log_update_norms",
    True,
    "Write each variable's update norm and trust ratio to TensorBoard.",
)
_POLY_POWER = flags.DEFINE_float(
    "poly_power", 1.0, "polynomial: power of the decay to 0 at the last step."
)
_EVAL_STEPS = flags.DEFINE_integer(
    "eval_steps", 1000, "Steps between two evaluations; 0: at the end only."
)
_KEEP = flags.DEFINE_integer(
    "keep_checkpoint_max", 5, "How many of the newest checkpoints stay."
)
_BEST_METRIC = flags.DEFINE_enum(
    "best_metric",
    "",
    ["", *METRICS],
    "Metric of the evaluations whose best checkpoint stays, too.",
)
_MAX_LOSS = flags.DEFINE_float(
    "max_loss", 0.0, "Largest loss of a step; 0 for any that is finite."
)
_ROLLBACK_WINDOW = flags.DEFINE_integer(
    "rollback_window",
    100,
    "Batches that --on_divergence=rollback leaves out: the one that diverged "
    "and those before it.",
)

FLAG_GROUPS = {
    "Data and model": (
        *("input", "output", "config", "config_overrides", "init_from"),
    ),
    "Length and batch": (
        *("num_train_steps", "train_batch_size"),
        *("gradient_accumulation_steps", "seed"),
    ),
    "Learning rate": (
        *("learning_rate", "num_warmup_steps", "schedule"),
        *("start_warmup_step", "poly_power", "final_lr_fraction"),
        *("decay_steps", "scale_lr_with_batch", "reference_batch_size"),
        *("layerwise_lr_decay",),
    ),
    "Optimizer": ("optimizer", "weight_decay", "clip_norm", "ema_decay"),
    "Machine": (
        *("distribution", "tpu", "tpu_zone", "gcp_project"),
        *("precision", "rematerialize", "jit_compile", "steps_per_loop"),
    ),
    "Evaluations, checkpoints and logs": (
        *("eval_steps", "eval_batch_size", "max_eval_steps"),
        *("save_checkpoints_steps", "keep_checkpoint_max", "best_metric"),
        *("log_steps", "log_update_norms"),
    ),
    "Divergence": ("on_divergence", "max_loss", "rollback_window"),
}


def main() -> None:
    """Runs the pretraining that the flags describe."""
    # Imported here: help and wrong flags need not wait for TensorFlow.
    from albert_tf.tasks.evaluate_pretraining import baselines
    from albert_tf.tasks.pretrain import pretrain
    from albert_tf.tasks.pretrain_summary import end_summary
    from albert_tf.tasks.pretraining_records import records_manifest

    # Unless told, a model is like the checkpoint it starts from.
    like_checkpoint = _INIT_FROM.value and not model_flags.CONFIG.present
    config = PretrainConfig(
        input_patterns=_INPUT.value,
        output_dir=_OUTPUT.value,
        model=None if like_checkpoint else model_flags.model_config(),
        init_from=_INIT_FROM.value,
        model_changes=model_flags.changes() if like_checkpoint else {},
        training=training_flags.training_config(
            total_steps=_NUM_TRAIN_STEPS.value,
            eval_steps=_EVAL_STEPS.value,
            keep_checkpoints=_KEEP.value,
            best_metric=_BEST_METRIC.value,
            max_loss=_MAX_LOSS.value,
            rollback_window=_ROLLBACK_WINDOW.value,
            log_update_norms=_LOG_UPDATE_NORMS.value,
        ),
        train_batch_size=_TRAIN_BATCH_SIZE.value,
        eval_batch_size=_EVAL_BATCH_SIZE.value,
        max_eval_steps=_MAX_EVAL_STEPS.value,
        optimizer=_OPTIMIZER.value,
        learning_rate=_LEARNING_RATE.value,
        num_warmup_steps=_NUM_WARMUP_STEPS.value,
        scale_lr_with_batch=_SCALE_LR_WITH_BATCH.value,
        reference_batch_size=_REFERENCE_BATCH_SIZE.value,
        schedule=_SCHEDULE.value,
        final_lr_fraction=_FINAL_LR_FRACTION.value,
        decay_steps=_DECAY_STEPS.value,
        layerwise_lr_decay=training_flags.LAYERWISE_LR_DECAY.value,
        start_warmup_step=_START_WARMUP_STEP.value,
        poly_power=_POLY_POWER.value,
        weight_decay=training_flags.WEIGHT_DECAY.value,
        precision=machine_flags.PRECISION.value,
        rematerialize=training_flags.REMATERIALIZE.value,
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
    known = {}
    if result.evaluation:
        known = baselines(records_manifest(_INPUT.value, "heldout"))
    print(end_summary(result, time.monotonic() - started, known))
    print(f"wrote {os.fspath(_OUTPUT.value)}")
