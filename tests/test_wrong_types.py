"""Settings and our JSON files with values of every kind: used, or one line."""

import dataclasses
import importlib
import json
import math
import pathlib

import pytest
from json_variants import variants

from albert_tf.analysis.runs import read_runs, run_table
from albert_tf.cli.commands import COMMANDS
from albert_tf.config import AlbertConfig
from albert_tf.data.manifest import find_manifest
from albert_tf.data.records import open_records
from albert_tf.errors import InputError
from albert_tf.finetuning.model_folder import open_model_folder
from albert_tf.finetuning.registry import known_tasks, make_task_type
from albert_tf.finetuning.task_config import TaskSettings
from albert_tf.settings import check_settings, settings_of
from albert_tf.training.best_checkpoint import read_best
from albert_tf.training.run_folder import load_run_config

WRONG = (
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, -1e308, 1e-320),
    *(math.nan, math.inf, -math.inf, 2**31, 2**63, -(2**63), 10**400),
    *("", " ", "x", "1", "nan", "\udcff", "a\0", b"x", [], [""], [5], ["a"]),
    *({}, {"a": 5}, (), object(), 1j, AlbertConfig, pathlib.Path("x")),
)


def configs():
    """Yields every class with settings, and a right value of each."""
    classes = {AlbertConfig, TaskSettings}
    for command in COMMANDS:
        name = f"albert_tf.cli.{command.replace('-', '_')}"
        classes.update(importlib.import_module(name).CONFIGS)
    for config in sorted(classes, key=lambda x: x.__qualname__):
        required = {x.name: "x" for x in settings_of(config) if x.required}
        fields = {x.name for x in dataclasses.fields(config)}
        if "tokenizer" in fields:
            required["tokenizer"] = None
        if {"run", "checkpoint"} <= fields:
            required |= {"run": "x", "input": "x"}
        if "num_train_steps" in fields:
            required["num_train_steps"] = 6
        if "num_warmup_steps" in fields:
            required["num_warmup_steps"] = 0
        yield config, required


CONFIGS = list(configs())


def problem_of(call, *arguments):
    """Returns the message of the `InputError` of a call, "" without one."""
    try:
        call(*arguments)
    except InputError as error:
        return str(error)
    return ""


def checked(cls, values):
    """Returns a config that was checked, as `CommandFlags.build` does it."""
    built = cls(**values)
    check_settings(built)
    return built


@pytest.mark.parametrize(
    ("config", "required"), CONFIGS, ids=[x.__name__ for x, _ in CONFIGS]
)
def test_settings_with_values_of_all_types(config, required):
    checked(config, required)
    for setting in settings_of(config):
        if setting.type in (int, float):
            assert setting.description.bounds or setting.name in UNBOUNDED
        for value in WRONG:
            values = required | {setting.name: value}
            problem = problem_of(checked, config, values)
            if problem:
                assert "\n" not in problem
                assert len(problem) < 400
                continue
            used = getattr(checked(config, values), setting.name)
            if isinstance(used, float):
                assert math.isfinite(used)
                assert used == 0 or 1e-38 < abs(used) < 3.5e38
            if setting.type is int and used is not None:
                assert type(used) is int
                assert -(2**63) <= used < 2**63
            if used in ("", " "):
                assert used == setting.default


# A threshold of differences of logits.
UNBOUNDED = ("null_threshold",)


# That take the place of parts of JSON files.
WRONG_PARTS = (None, True, 5, -1, 0.5, 1e999, 10**30, "", "x", [], [5], {})


SPLIT = {
    "files": [{"name": "pretraining-0.tfrecord", "records": 1, "bytes": 2}],
    "passes": 1,
    "counts": {"instances": 1},
    "labels": {"0": 1, "1": 0},
    "padding_fraction": 0.1,
    "kept_fraction": 1.0,
    "masking_rate": 0.1,
    "constant_guess_accuracy": 0.1,
}
MANIFEST = {
    "format": "albert_tf pretraining data",
    "version": 1,
    "settings": {
        "sentence_order": "sop",
        "masking": "dynamic",
        "max_seq_length": 32,
        "max_predictions_per_seq": 5,
        "masked_lm_prob": 0.15,
        "ngram": 3,
        "favor_shorter_ngram": True,
        "do_whole_word_mask": True,
    },
    "tokenizer": {"file": "spiece.model", "fingerprint": "0", "vocab_size": 9},
    "splits": {"train": SPLIT},
}
RUN = {
    "settings": {
        "model": AlbertConfig().to_dict(),
        "train_batch_size": 2,
        "num_train_steps": 3,
    },
    "files": ["flags.txt"],
}
LINES = [
    {"step": 1, "time": 1.0, "split": "train", "values": {"loss": 1.0}},
    {
        "step": 2,
        "time": 2.0,
        "split": "eval",
        "values": {
            "loss": None,
            "examples_per_second": 4.0,
            "tokens_per_second": 9.0,
        },
    },
]


def lines(value):
    rows = value if isinstance(value, list) else [value]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def open_task(folder):
    make_task_type(open_model_folder(folder).task_config)


def read_scores(folder):
    for run in read_runs([folder]):
        run_table([run])


FILES = {
    "manifest.json": (MANIFEST, json.dumps, find_manifest),
    "manifest.json of records": (MANIFEST, json.dumps, open_records),
    "run.json": (RUN, json.dumps, load_run_config),
    "best.json": (
        {"step": 1, "metric": "loss", "value": 0.5},
        json.dumps,
        read_best,
    ),
    "metrics.jsonl": (LINES, lines, read_scores),
    "runs.json": ({"best": "run-0"}, json.dumps, open_task),
    **{
        f"task.json of {name}": (task.to_dict(), json.dumps, open_task)
        for name, task in known_tasks().items()
        if name in ("squad2.0", "sst2")
    },
}


@pytest.mark.parametrize("name", FILES)
def test_files_with_values_of_all_types(name, tmp_path):
    value, write, read = FILES[name]
    path = tmp_path / name.partition(" ")[0]
    (tmp_path / "run-0").mkdir()
    (tmp_path / "pretraining-0.tfrecord").write_bytes(b"ab")
    path.write_text(write(value))
    right = problem_of(read, tmp_path)
    assert not right or name in ("manifest.json of records", "runs.json"), right
    texts = [write(x) for x in variants(value, WRONG_PARTS)]
    texts += ["", "{", "[" * 100_000, "NaN", '"\\ud800"', "\ufeff{}"]
    for text in texts:
        path.write_text(text)
        assert "\n" not in problem_of(read, tmp_path), text
    path.write_bytes(b"\xff{}\n")
    assert problem_of(read, tmp_path)
