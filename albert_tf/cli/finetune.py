"""Fine-tune a model on a task: labels, options, answers or entities.

The same command, given again, resumes a run that stopped.
"""

from __future__ import annotations

import dataclasses
import time

from absl import flags

from albert_tf.cli import (
    machine_flags,
    source_flags,
    task_flags,
    training_flags,
)
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
from albert_tf.tasks.finetuning.task_files import (
    Source,
    find_split,
    read_examples,
)
from albert_tf.tasks.pretrain_config import OPTIMIZERS

flags.adopt_module_key_flags(machine_flags)
flags.adopt_module_key_flags(training_flags)
flags.adopt_module_key_flags(source_flags)
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
_EVAL_STEPS = flags.DEFINE_integer(
    "eval_steps", 0, "Steps between two evaluations; 0: an epoch."
)
_PATIENCE = flags.DEFINE_integer(
    "early_stopping_patience",
    0,
    "End a run after so many evaluations that were not better; 0: never.",
)
_KEEP = flags.DEFINE_integer(
    "keep_checkpoint_max", 1, "How many of the newest checkpoints stay."
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
        *("from", "data", "train", "dev", "on_bad_example", "cache_dir"),
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
    description, train, dev = _task_and_sources()
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


def _task_and_sources() -> tuple[TaskDescription, list[Source], list[Source]]:
    """Returns the task with its settings, and what its two splits are in."""
    task_flags.check_own_flags()
    name, data = task_flags.TASK.value, task_flags.DATA.value
    train: list[Source] = [*task_flags.paths_of(task_flags.TRAIN.value)]
    dev: list[Source] = [*task_flags.paths_of(task_flags.DEV.value)]
    if not source_flags.by_name() and bool(data) == bool(train):
        raise InputError("give either --data or --train, and --dev with it")
    if name == task_flags.OWN:
        if source_flags.by_name():
            raise InputError(
                f"--from={source_flags.FROM.value} has known tasks only; "
                f"--task={name} needs files"
            )
        if not train:
            raise InputError(
                f"--task={name} needs --train, and --dev to be scored on"
            )
        description = task_flags.own_task(train)
    else:
        description = KNOWN_TASKS[name]

    def split(name: str) -> Source:
        return find_split(
            description, name, source=source_flags.FROM.value, data=data
        )

    if source_flags.by_name():
        train = [split(name) for name in train or ["train"]]
        dev = [split(name) for name in dev or ["dev"]]
    elif data:
        train, dev = [split("train")], dev or [split("dev")]
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
    description: TaskDescription, train: list[Source]
) -> TaskDescription:
    """Returns a description with the labels of words in training files."""
    from albert_tf.data.examples.bad_examples import BadExamples
    from albert_tf.data.examples.conll import label_names

    bad = BadExamples(task_flags.ON_BAD_EXAMPLE.value)
    labels = label_names(
        example
        for source in train
        for example in read_examples(
            description, source, bad=bad, labelled=True
        )
    )
    return dataclasses.replace(description, labels=labels)


def _config() -> FinetuneConfig:
    if _EPOCHS.value is not None and _STEPS.value is not None:
        raise InputError("give either --num_train_epochs or --num_train_steps")
    if _WARMUP_STEPS.present and _WARMUP_PROPORTION.present:
        raise InputError(
            "give either --num_warmup_steps or --warmup_proportion"
        )
    epochs = _EPOCHS.value
    if _STEPS.value is None and epochs is None:
        epochs = 3.0
    return FinetuneConfig(
        output_dir=_OUTPUT.value,
        init_from=_INIT_FROM.value,
        model_changes=parse_overrides(_OVERRIDES.value),
        training=training_flags.training_config(
            total_steps=1 if _STEPS.value is None else _STEPS.value,
            eval_steps=_EVAL_STEPS.value,
            keep_checkpoints=_KEEP.value,
            log_update_norms=False,
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
        layerwise_lr_decay=training_flags.LAYERWISE_LR_DECAY.value,
        weight_decay=training_flags.WEIGHT_DECAY.value,
        head_dropout=_HEAD_DROPOUT.value,
        cache_dir=_CACHE_DIR.value,
        precision=machine_flags.PRECISION.value,
        rematerialize=training_flags.REMATERIALIZE.value,
        distribution=machine_flags.DISTRIBUTION.value,
        tpu=machine_flags.TPU.value,
        tpu_zone=machine_flags.TPU_ZONE.value,
        gcp_project=machine_flags.GCP_PROJECT.value,
    )
