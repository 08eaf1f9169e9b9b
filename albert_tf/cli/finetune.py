"""Fine-tune a model on a task: labels, options, answers or entities.

The same command, given again, resumes a run that stopped.
"""

from __future__ import annotations

import dataclasses
import time

from absl import flags

from albert_tf.cli import machine_flags, task_flags
from albert_tf.cli.architecture import parse_overrides
from albert_tf.cli.quiet_import import import_tensorflow
from albert_tf.errors import InputError
from albert_tf.tasks.finetuning.config import SCHEDULES, FinetuneConfig
from albert_tf.tasks.finetuning.description import TaskDescription
from albert_tf.tasks.finetuning.known_tasks import (
    KNOWN_TASKS,
    with_metrics,
    with_settings,
)
from albert_tf.tasks.pretrain_config import OPTIMIZERS
from albert_tf.training.choices import ON_DIVERGENCE
from albert_tf.training.training_config import TrainingConfig

flags.adopt_module_key_flags(machine_flags)
flags.adopt_module_key_flags(task_flags)

_INIT_FROM = flags.DEFINE_string(
    "init_from",
    None,
    "Checkpoint of any kind to start from, or the folder of another "
    "fine-tuning run, such as one on mnli for rte; required.",
    required=True,
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder of the run, new or to resume; required.",
    required=True,
)
_OVERRIDES = flags.DEFINE_string(
    "config_overrides",
    "",
    "Changes to the architecture, such as hidden_dropout_prob=0.1,"
    "attention_probs_dropout_prob=0.1.",
)
_HEAD_DROPOUT = flags.DEFINE_float(
    "head_dropout", 0.1, "Dropout before the task's head."
)
_HEAD = flags.DEFINE_enum(
    "head",
    None,
    ["v1", "joint"],
    "Spans: start and end by themselves, or the end given the start, and "
    "whether there is an answer. The default is the task's.",
)
_MAX_SEQ_LENGTH = flags.DEFINE_integer(
    "max_seq_length", None, "Most tokens of a row; the default is the task's."
)
_DOC_STRIDE = flags.DEFINE_integer(
    "doc_stride", None, "Spans: pieces from one window to the next."
)
_MAX_QUERY_LENGTH = flags.DEFINE_integer(
    "max_query_length", None, "Spans: most pieces of a question."
)
_MAX_ANSWER_LENGTH = flags.DEFINE_integer(
    "max_answer_length", None, "Spans: most pieces of an answer."
)
_N_BEST = flags.DEFINE_integer(
    "n_best", None, "Spans: how many of the best answers are kept."
)
_START_N_TOP = flags.DEFINE_integer(
    "start_n_top", None, "Spans, joint head: how many starts are followed."
)
_END_N_TOP = flags.DEFINE_integer(
    "end_n_top", None, "Spans, joint head: how many ends of each."
)
_MAX_QA_LENGTH = flags.DEFINE_integer(
    "max_qa_length", None, "Options: most pieces of question and option."
)
_EPOCHS = flags.DEFINE_float(
    "num_train_epochs",
    None,
    "Passes over the examples (default: 3, unless --num_train_steps is given).",
)
_STEPS = flags.DEFINE_integer(
    "num_train_steps", None, "Steps of the whole run, instead of epochs."
)
_TRAIN_BATCH_SIZE = flags.DEFINE_integer(
    "train_batch_size", 32, "Examples of a step, over all devices."
)
_PREDICT_BATCH_SIZE = flags.DEFINE_integer(
    "predict_batch_size", 32, "Rows of a batch of the evaluation."
)
_ACCUMULATION = flags.DEFINE_integer(
    "gradient_accumulation_steps",
    1,
    "Micro-batches that a device cuts its share of a step into, for less "
    "memory.",
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Seed of the new head, order of examples and dropout."
)
_RUNS = flags.DEFINE_integer(
    "runs",
    1,
    "Runs with seeds from --seed on, in folders run-0, run-1 and so on; their "
    "median is reported.",
)
_OPTIMIZER = flags.DEFINE_enum(
    "optimizer", "adamw", OPTIMIZERS, "AdamW or LAMB, as the original has them."
)
_LEARNING_RATE = flags.DEFINE_float("learning_rate", 5e-5, "Highest rate.")
_WARMUP_STEPS = flags.DEFINE_integer(
    "num_warmup_steps", None, "First steps, in which the rate grows."
)
_WARMUP_PROPORTION = flags.DEFINE_float(
    "warmup_proportion", 0.1, "The same, as a share of all steps."
)
_SCHEDULE = flags.DEFINE_enum(
    "schedule",
    "polynomial",
    SCHEDULES,
    "After the warm-up: the original's line down, with a jump; a line, or a "
    "cosine.",
)
_LAYERWISE_LR_DECAY = flags.DEFINE_float(
    "layerwise_lr_decay",
    1.0,
    "Factor on the rate from each level of the model to the one below.",
)
_WEIGHT_DECAY = flags.DEFINE_float(
    "weight_decay", 0.01, "Decay of all weights but biases and LayerNorm."
)
_CLIP_NORM = flags.DEFINE_float(
    "clip_norm", 1.0, "Largest global norm of the gradient; 0: no clipping."
)
_EMA_DECAY = flags.DEFINE_float(
    "ema_decay",
    0.0,
    "Average the weights with this decay, and score and keep the averages; "
    "0: do not.",
)
_REMATERIALIZE = flags.DEFINE_boolean(
    "rematerialize",
    False,
    "Less memory, about a third slower: keep of each block its input only.",
)
_JIT_COMPILE = flags.DEFINE_boolean(
    "jit_compile",
    False,
    "Compile the step with XLA, on one CPU or GPU; all rows are then padded.",
)
_EVAL_STEPS = flags.DEFINE_integer(
    "eval_steps", 0, "Steps between two evaluations; 0: an epoch."
)
_PATIENCE = flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "End a run after so many evaluations that were not better; 0: never.",
)
_SAVE_STEPS = flags.DEFINE_integer(
    "save_checkpoints_steps", 1000, "Steps between two checkpoints."
)
_KEEP = flags.DEFINE_integer(
    "keep_checkpoint_max", 1, "How many of the newest checkpoints stay."
)
_LOG_STEPS = flags.DEFINE_integer(
    "log_steps", 100, "Steps between two lines of metrics."
)
_STEPS_PER_LOOP = flags.DEFINE_integer(
    "steps_per_loop",
    100,
    "Most steps on the device before the host looks for signals.",
)
_ON_DIVERGENCE = flags.DEFINE_enum(
    "on_divergence",
    "stop",
    ON_DIVERGENCE,
    "What a loss that is not finite does: stop, or go back to a checkpoint and "
    "leave out the batches that led there.",
)
_CACHE_DIR = flags.DEFINE_string(
    "cache_dir",
    None,
    "Folder where tokenized examples are kept for other runs.",
)

FLAG_GROUPS = {
    "Task and model": (
        *("task", "init_from", "output", "config_overrides", "head_dropout"),
    ),
    "Examples": (
        *("data", "train", "dev", "on_bad_example", "cache_dir"),
        *("text_column", "pair_column", "label_column", "id_column"),
        *("classes", "regression", "metrics"),
    ),
    "Rows and answers": (
        *("max_seq_length", "max_qa_length", "doc_stride", "max_query_length"),
        *("head", "start_n_top", "end_n_top", "n_best", "max_answer_length"),
    ),
    "Length and batch": (
        *("num_train_epochs", "num_train_steps", "train_batch_size"),
        *("gradient_accumulation_steps", "seed", "runs"),
    ),
    "Learning rate and optimizer": (
        *("learning_rate", "num_warmup_steps", "warmup_proportion"),
        *("schedule", "layerwise_lr_decay", "optimizer", "weight_decay"),
        *("clip_norm", "ema_decay"),
    ),
    "Machine": (
        *("distribution", "tpu", "tpu_zone", "gcp_project"),
        *("precision", "rematerialize", "jit_compile", "steps_per_loop"),
    ),
    "Evaluations, checkpoints and logs": (
        *("eval_steps", "predict_batch_size", "early_stopping_patience"),
        *("save_checkpoints_steps", "keep_checkpoint_max", "log_steps"),
        *("on_divergence",),
    ),
}


def main() -> None:
    """Runs the fine-tuning that the flags describe."""
    config = _config()
    description, train, dev = _task_and_files()
    # Now: help, wrong flags and wrong columns need not wait for TensorFlow.
    import_tensorflow()
    from albert_tf.tasks.finetuning.data import TaskFiles
    from albert_tf.tasks.finetuning.runs import finetune_runs

    started = time.monotonic()
    result = finetune_runs(
        config,
        description,
        TaskFiles(
            train=train,
            dev=dev,
            on_bad_example=task_flags.ON_BAD_EXAMPLE.value,
        ),
        runs=_RUNS.value,
        run_files={"flags.txt": flags.FLAGS.flags_into_string()},
    )
    if result.interrupted:
        return
    print(result.summary())
    minutes = (time.monotonic() - started) / 60
    print(f"wrote {_OUTPUT.value} in {minutes:.1f} minutes")


def _task_and_files() -> tuple[TaskDescription, list[str], list[str]]:
    """Returns the task with its settings, and the files of its two splits."""
    task_flags.check_own_flags()
    name, data = task_flags.TASK.value, task_flags.DATA.value
    train = task_flags.paths_of(task_flags.TRAIN.value)
    dev = task_flags.paths_of(task_flags.DEV.value)
    if bool(data) == bool(train):
        raise InputError("give either --data or --train, and --dev with it")
    if name == task_flags.OWN:
        if not train:
            raise InputError(
                f"--task={name} needs --train, and --dev to be scored on"
            )
        description = task_flags.own_task(train)
    else:
        description = KNOWN_TASKS[name]
    if data:
        from albert_tf.tasks.finetuning.task_files import split_path

        train = [str(split_path(description, data, "train"))]
        dev = dev or [str(split_path(description, data, "dev"))]
    if description.kind == "words":
        description = _with_labels(description, train)
    changes = {
        "max_seq_length": _MAX_SEQ_LENGTH.value,
        "max_qa_length": _MAX_QA_LENGTH.value,
        "doc_stride": _DOC_STRIDE.value,
        "max_query_length": _MAX_QUERY_LENGTH.value,
        "max_answer_length": _MAX_ANSWER_LENGTH.value,
        "n_best": _N_BEST.value,
        "head": _HEAD.value,
        "start_n_top": _START_N_TOP.value,
        "end_n_top": _END_N_TOP.value,
    }
    if task_flags.METRICS.value:
        description = with_metrics(description, task_flags.METRICS.value)
    return with_settings(description, changes), train, dev


def _with_labels(
    description: TaskDescription, train: list[str]
) -> TaskDescription:
    """Returns a description with the labels of words in training files."""
    from albert_tf.data.examples.bad_examples import BadExamples
    from albert_tf.data.examples.conll import label_names
    from albert_tf.tasks.finetuning.task_files import read_examples

    bad = BadExamples(task_flags.ON_BAD_EXAMPLE.value)
    labels = label_names(
        example
        for path in train
        for example in read_examples(description, path, bad=bad, labelled=True)
    )
    return dataclasses.replace(description, labels=labels)


def _config() -> FinetuneConfig:
    if _EPOCHS.value is not None and _STEPS.value is not None:
        raise InputError("give either --num_train_epochs or --num_train_steps")
    if _WARMUP_STEPS.present and _WARMUP_PROPORTION.present:
        raise InputError(
            "give either --num_warmup_steps or --warmup_proportion"
        )
    precision = machine_flags.PRECISION.value
    epochs = _EPOCHS.value
    if _STEPS.value is None and epochs is None:
        epochs = 3.0
    return FinetuneConfig(
        output_dir=_OUTPUT.value,
        init_from=_INIT_FROM.value,
        model_changes=parse_overrides(_OVERRIDES.value),
        training=TrainingConfig(
            total_steps=1 if _STEPS.value is None else _STEPS.value,
            steps_per_loop=_STEPS_PER_LOOP.value,
            gradient_accumulation_steps=_ACCUMULATION.value,
            clip_norm=_CLIP_NORM.value,
            seed=_SEED.value,
            log_steps=_LOG_STEPS.value,
            save_steps=_SAVE_STEPS.value,
            eval_steps=_EVAL_STEPS.value,
            keep_checkpoints=_KEEP.value,
            on_divergence=_ON_DIVERGENCE.value,
            ema_decay=_EMA_DECAY.value,
            log_update_norms=False,
            dynamic_loss_scale=precision == "mixed_float16",
            jit_compile=_JIT_COMPILE.value,
        ),
        num_train_epochs=epochs,
        early_stopping_patience=_PATIENCE.value,
        train_batch_size=_TRAIN_BATCH_SIZE.value,
        predict_batch_size=_PREDICT_BATCH_SIZE.value,
        optimizer=_OPTIMIZER.value,
        learning_rate=_LEARNING_RATE.value,
        num_warmup_steps=_WARMUP_STEPS.value,
        warmup_proportion=_WARMUP_PROPORTION.value,
        schedule=_SCHEDULE.value,
        layerwise_lr_decay=_LAYERWISE_LR_DECAY.value,
        weight_decay=_WEIGHT_DECAY.value,
        head_dropout=_HEAD_DROPOUT.value,
        cache_dir=_CACHE_DIR.value,
        precision=precision,
        rematerialize=_REMATERIALIZE.value,
        distribution=machine_flags.DISTRIBUTION.value,
        tpu=machine_flags.TPU.value,
        tpu_zone=machine_flags.TPU_ZONE.value,
        gcp_project=machine_flags.GCP_PROJECT.value,
    )
