"""Old flags: what commands say of them, and the page that lists them."""

import pathlib
import re

import pytest

from albert_tf.cli.commands import command_flags
from albert_tf.cli.main import main
from albert_tf.cli.migration import MIGRATION, SCRIPTS, new_name

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "migration.md"
# Flags with their values, commands with their flags.
CODE = re.compile(r"(albert [a-z]+(-[a-z]+)?( --\S+\w)?|--\w+(=\S+\w)?)")

_TRAINING = (
    "output_dir init_checkpoint do_train train_batch_size learning_rate "
    "save_checkpoints_steps iterations_per_loop use_tpu tpu_name tpu_zone "
    "gcp_project master num_tpu_cores albert_config_file "
)
_TASK = (
    "vocab_file spm_model_file do_lower_case max_seq_length do_predict "
    "predict_batch_size albert_hub_module_handle "
)
# The flags of google-research/albert's scripts, read from their source.
FLAGS = {
    "create_pretraining_data": (
        "create-data",
        "input_file output_file vocab_file spm_model_file input_file_mode "
        "do_lower_case do_whole_word_mask do_permutation favor_shorter_ngram "
        "random_next_sentence max_seq_length ngram max_predictions_per_seq "
        "random_seed dupe_factor masked_lm_prob short_seq_prob",
    ),
    "run_pretraining": (
        "pretrain",
        f"{_TRAINING} input_file max_seq_length max_predictions_per_seq "
        "do_eval eval_batch_size optimizer poly_power num_train_steps "
        "num_warmup_steps start_warmup_step keep_checkpoint_max max_eval_steps "
        "init_from_group0 masked_lm_budget",
    ),
    "run_classifier": (
        "finetune",
        f"{_TRAINING} {_TASK} data_dir task_name cached_dir do_eval "
        "eval_batch_size train_step warmup_step keep_checkpoint_max optimizer "
        "export_dir threshold_to_export",
    ),
    "run_race": (
        "finetune",
        f"{_TRAINING} {_TASK} data_dir task_name train_file eval_file "
        "predict_file dropout_prob max_qa_length num_keep_checkpoint high_only "
        "middle_only do_eval eval_batch_size train_step warmup_step",
    ),
    "run_squad": (
        "finetune",
        f"{_TRAINING} {_TASK} train_file predict_file train_feature_file "
        "predict_feature_file predict_feature_left_file doc_stride "
        "max_query_length num_train_epochs warmup_proportion n_best_size "
        "max_answer_length use_einsum export_dir start_n_top end_n_top "
        "dropout_prob",
    ),
    "run_squad --do_predict": (
        "predict",
        f"{_TASK} output_dir predict_file init_checkpoint doc_stride "
        "max_query_length n_best_size max_answer_length start_n_top end_n_top "
        "dropout_prob albert_config_file do_train use_tpu",
    ),
    "export_to_tfhub": (
        "export",
        "albert_directory checkpoint_name do_lower_case use_einsum export_path",
    ),
    "export_checkpoints": (
        "convert",
        "albert_directory checkpoint_name do_lower_case export_path",
    ),
}


@pytest.mark.parametrize("script", FLAGS)
def test_every_flag_of_the_original_is_known(script):
    command, flags = FLAGS[script]
    settings = command_flags(command).settings
    for flag in flags.split():
        assert flag in settings or new_name(command, flag), flag


@pytest.mark.parametrize("command", MIGRATION)
def test_old_flags_are_unknown_and_new_ones_known(command):
    settings = command_flags(command).settings
    old = [name for flags in MIGRATION[command] for name in flags.split(", ")]
    assert len(old) == len(set(old))
    assert not set(old) & set(settings)
    for text in MIGRATION[command].values():
        # Those of other commands are named with the command.
        for other, flag in re.findall(r"(?:albert ([a-z-]+) )?--(\w+)", text):
            # All commands have the last two.
            known = command_flags(other or command).settings
            assert flag in known or flag in ("flagfile", "recipe"), text


def table_lines(command):
    for flags, text in MIGRATION[command].items():
        old = ", ".join(f"`--{name}`" for name in flags.split(", "))
        new = CODE.sub(r"`\g<0>`", text)
        yield f"| {old} | {new} |"


@pytest.mark.parametrize("command", MIGRATION)
def test_the_page_has_the_table(command):
    table = "\n".join(table_lines(command))
    heading = f"### albert {command}\n\n| old | `albert {command}` |\n|---|---|"
    assert f"{heading}\n{table}\n" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_commands(script, capsys):
    assert main([f"{script}.py"]) == 2
    command = SCRIPTS[script]
    assert f"did you mean {command}?" in capsys.readouterr().err
    assert f"`{script}`" in PAGE.read_text("utf-8")


def test_all_unknown_flags_are_reported_at_once(capsys):
    status = main(
        [
            *("finetune", "--predict_file=dev.json", "--dropout_prob=0"),
            *("--do_train", "--nodo_eval", "--use_tpu", "False"),
            *("--albert_hub_module_handle", "x", "--lerning_rate=1"),
            *("--xyz", "--output=o", "--do_train", "--", "--positional"),
        ]
    )
    error = capsys.readouterr().err
    assert status == 2
    assert error.count("\n") == 1
    assert error.removeprefix("albert: finetune: ").rstrip().split("; ") == [
        "--predict_file is now called --dev, or albert predict --input",
        "--dropout_prob is now called --head_dropout",
        "--do_train is not needed: the command trains",
        "--nodo_eval is not needed: --dev is evaluated, and albert evaluate "
        "scores more",
        "--use_tpu is now called --tpu",
        "--albert_hub_module_handle is now called --init_from",
        "unknown flag --lerning_rate (did you mean --learning_rate?)",
        "unknown flag --xyz",
    ]


def test_unknown_flags_of_flagfiles(tmp_path, capsys):
    path = tmp_path / "flags"
    path.write_text("--input_file=a\n--do_permutation\n")
    assert main(["create-data", f"--flagfile={path}"]) == 2
    error = capsys.readouterr().err
    assert (
        "--input_file is now called --input; --do_permutation is not" in error
    )
