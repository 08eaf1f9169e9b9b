"""Flags of other implementations, and what they are called here.

The scripts are those of google-research/albert and Model Garden.
docs/migration.md has the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping

# Flags, and what they are called: a text that begins with a flag of the command
# completes "is now called ...", another text "is ...".
Rows = Mapping[str, str]

_TPU = {"use_tpu, tpu_name, master, num_tpu_cores": "--tpu"}
_LOOP = {"iterations_per_loop": "--steps_per_loop"}
_DISTRIBUTION = {
    "num_gpus, strategy_type, distribution_strategy": "--distribution"
}
_TRAINS = {"do_train, mode": "not needed: the command trains"}
_EXPERIMENT = {
    "experiment, config_file, params_override, gin_file": (
        "now a flag for each setting; --flagfile and --recipe read several"
    ),
}
_OUTPUT = {"output_dir, model_dir": "--output"}
_BATCH = {"predict_batch_size": "--eval_batch_size"}
_TOKENIZER = (
    "albert_config_file, bert_config_file, vocab_file, spm_model_file, "
    "sp_model_file, do_lower_case"
)
_IN_MODEL = {
    (
        f"{_TOKENIZER}, task_name, max_seq_length, doc_stride, "
        "max_query_length, max_qa_length, n_best_size, max_answer_length, "
        "start_n_top, end_n_top, dropout_prob"
    ): "not needed: it is part of the model"
}

MIGRATION: dict[str, Rows] = {
    "train-vocab": {
        "model_prefix": "--output",
        "input_sentence_size": "--max_sentences",
        (
            "pad_id, unk_id, bos_id, eos_id, control_symbols, "
            "user_defined_symbols, shuffle_input_sentence"
        ): "not needed: it is as for the released models",
    },
    "create-data": {
        "input_file": "--input",
        "output_file": "--output, a folder in which files are numbered",
        "vocab_file, sp_model_file": (
            "--spm_model_file, which may also be a WordPiece vocab.txt"
        ),
        "random_next_sentence": (
            "--sentence_order=nsp instead of the default, sop"
        ),
        "random_seed": (
            "--seed, which determines every byte, n-gram lengths included"
        ),
        "do_permutation": "not supported: the released models do not use it",
        "max_ngram_size": "--ngram",
        "gzip_compress": "--compress",
        "input_file_mode, use_v2_feature_names": (
            "not needed: there is one kind of file"
        ),
    },
    "pretrain": {
        "albert_config_file, bert_config_file": (
            "--config: a JSON file, or a name such as albert_base_v2"
        ),
        "input_file, input_files": "--input, the folder of albert create-data",
        **_OUTPUT,
        "init_checkpoint": (
            "--init_from: any format, strict; --config_overrides grows the "
            "model"
        ),
        "max_seq_length, max_predictions_per_seq": (
            "not needed: it is read from the records"
        ),
        **_TRAINS,
        "do_eval": (
            "--eval_steps, on records of albert create-data "
            "--heldout_fraction, or albert evaluate"
        ),
        **_TPU,
        **_LOOP,
        "init_from_group0": (
            "--config_overrides=num_hidden_groups=N, with --init_from"
        ),
        "masked_lm_budget": "not supported: it fails in the original",
        "warmup_steps": "--num_warmup_steps",
        "num_train_epochs, num_steps_per_epoch": "--num_train_steps",
        "optimizer_type": "--optimizer",
        **_DISTRIBUTION,
        **_EXPERIMENT,
    },
    "finetune": {
        "data_dir": "--data",
        "task_name": "--task",
        "train_file, train_data_path": "--train",
        "predict_file, eval_file, eval_data_path": (
            "--dev, or albert predict --input"
        ),
        (
            "train_feature_file, predict_feature_file, "
            "predict_feature_left_file, cached_dir"
        ): "not needed: texts are tokenized when the command starts",
        "albert_hub_module_handle, hub_module_url, init_checkpoint": (
            "--init_from"
        ),
        f"{_TOKENIZER}, input_meta_data_path": (
            "not needed: it is read from --init_from"
        ),
        **_OUTPUT,
        **_TRAINS,
        "do_eval": (
            "not needed: --dev is evaluated, and albert evaluate scores more"
        ),
        "do_predict": "now albert predict",
        "train_step": "--num_train_steps, or --num_train_epochs",
        "warmup_step, warmup_steps": (
            "--num_warmup_steps, or --warmup_proportion"
        ),
        **_BATCH,
        "dropout_prob": "--head_dropout",
        "n_best_size": "--n_best",
        "num_keep_checkpoint": "--keep_checkpoint_max",
        "high_only, middle_only": (
            "now a folder of one level, for --train and --dev"
        ),
        "export_dir, threshold_to_export, model_export_path": (
            "now albert export --kind=task, from strings to labels or answers"
        ),
        "use_einsum, verbose_logging": "not needed",
        **_TPU,
        **_LOOP,
        **_DISTRIBUTION,
        **_EXPERIMENT,
    },
    "predict": {
        "predict_file": "--input",
        "albert_hub_module_handle, init_checkpoint, model_dir": (
            "--model, the output of albert finetune"
        ),
        "data_dir": "--data, with --glue_submission",
        "output_dir": (
            "--output, a file, or --squad_output or --glue_submission, a folder"
        ),
        **_BATCH,
        "do_predict": "not needed: the command predicts",
        "do_train": "now albert finetune",
        "do_eval": "now --score, or albert evaluate",
        **_IN_MODEL,
        "use_tpu, tpu_name, master, num_tpu_cores": "not supported",
    },
    "evaluate": {
        "input_file": "--input, the folder of albert create-data",
        "predict_file, eval_file": "--input",
        "output_dir, model_dir, init_checkpoint": (
            "--run of albert pretrain, or --model of albert finetune"
        ),
        "data_dir": "--data",
        **_BATCH,
        "do_eval": "not needed: the command evaluates",
        "do_train": "now albert pretrain, or albert finetune",
        "do_predict": "now albert predict",
        **_IN_MODEL,
        "use_tpu, tpu_name, master, num_tpu_cores": "not supported",
    },
    "convert": {
        (
            "albert_directory, checkpoint_name, init_checkpoint, "
            "checkpoint_to_convert"
        ): "--input, a folder or the path of one checkpoint",
        "export_path, converted_checkpoint_path": "--output",
        "albert_config_file": "--config",
    },
    "export": {
        (
            "albert_directory, checkpoint_name, init_checkpoint, "
            "model_checkpoint_path"
        ): "--model, a folder or the path of one checkpoint",
        "export_path, export_dir, model_export_path": "--output",
        "export_type": "--kind",
        "max_seq_length": "--seq_length",
        f"{_TOKENIZER}, use_einsum": "not needed: it is read from --model",
    },
}


# The commands of scripts.
SCRIPTS = {
    "create_pretraining_data": "create-data",
    "run_pretraining": "pretrain",
    "run_classifier": "finetune",
    "run_squad_v1": "finetune",
    "run_squad_v2": "finetune",
    "run_race": "finetune",
    "export_to_tfhub": "export",
    "export_checkpoints": "convert",
}


def new_name(command: str, flag: str) -> str | None:
    """Returns what a flag is here, such as "--x is now called --y", or None.

    The command does not have the flag, which may begin with "no".
    """
    for name in (flag, flag.removeprefix("no")):
        for flags, text in MIGRATION.get(command, {}).items():
            if name in flags.split(", "):
                called = "now called " if text.startswith("--") else ""
                return f"--{flag} is {called}{text}"
    return None
