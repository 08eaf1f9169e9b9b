"""Commands that are killed at random moments leave nothing half-done.

A run that is killed and resumed ends with the same bits. Data and an export are
complete or absent: data/test_continue.py and test_folders.py kill the functions
that write them before each of their changes of files.
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.training.best_checkpoint import read_best
from albert_tf.training.checkpoint_files import (
    find_checkpoint,
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.logging import read_metrics

PATIENCE = 600
PRETRAIN = {
    "config": "albert_mini",
    "config_overrides": "vocab_size=600,embedding_size=16,hidden_size=32,"
    "num_hidden_layers=1,num_attention_heads=2,intermediate_size=64,"
    "hidden_dropout_prob=0.1,attention_probs_dropout_prob=0.1",
    "num_train_steps": 200,
    "train_batch_size": 8,
    "learning_rate": 0.002,
    "num_warmup_steps": 10,
    "steps_per_loop": 3,
    "log_steps": 2,
    "save_checkpoints_steps": 2,
    "eval_steps": 4,
    "max_eval_steps": 2,
    "best_metric": "mlm_loss",
    "seed": 5,
}
PHASES = [
    {"steps": 6},
    {"steps": 6, "train_batch_size": 4},
    {"gradient_accumulation_steps": 2},
]
FINETUNE = {
    "task": "text",
    "num_train_steps": 60,
    "train_batch_size": 4,
    "max_seq_length": 32,
    "learning_rate": 0.001,
    "config_overrides": "hidden_dropout_prob=0.1",
    "steps_per_loop": 2,
    "log_steps": 2,
    "eval_steps": 4,
    "save_checkpoints_steps": 4,
}
KINDS = ("start-up", "loop", "save", "evaluation")
# So that there are many blocks to be done, saved after each of them.
SMALL_BLOCKS = """
import functools
from albert_tf.data import create_data
create_data.Limits = functools.partial(
    create_data.Limits,
    group_bytes=1,
    min_block_bytes=8000,
    max_block_bytes=8000,
    shard_bytes=400_000,
    save_seconds=0.0,
)
"""
CREATE_DATA = {
    "masking": "static",
    "dupe_factor": 3,
    "max_seq_length": 64,
    "num_workers": 2,
}


def is_alive(process):
    try:
        stat = pathlib.Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Command:
    """A command whose process can be killed.

    Args:
      begin: the fixture `begin_albert`.
      name: name of the command.
      output: its output; beside it, the log is written.
      flags: further flags.
      devices: number of virtual devices.
      before: see `begin`.
    """

    def __init__(self, begin, name, output, flags, devices=1, before=""):
        self.log_file = output.with_name(f"{output.name}.log")
        flags = flags | {"output": output}
        if devices > 1:
            flags |= {"distribution": "mirrored"}
        arguments = [f"--{key}={value}" for key, value in flags.items()]
        self._started = begin(
            name, *arguments, log=self.log_file, devices=devices, before=before
        )
        self.process = self._started.process
        self.checkpoints = output / "checkpoints"

    @property
    def log(self):
        return self.log_file.read_text()

    def steps(self):
        found = re.findall(r"^step (\d+)/", self.log, re.MULTILINE)
        return list(map(int, found))

    def wait_for(self, happened):
        """Waits for something, or the end of the process."""
        deadline = time.monotonic() + PATIENCE
        while not happened() and is_alive(self.process):
            assert time.monotonic() < deadline, self.log
            time.sleep(0.0005)

    def is_writing(self):
        """Whether there is an unfinished checkpoint, maybe an older one."""
        return any(self.checkpoints.glob("unfinished*"))

    def end(self, signal_number=None):
        """Returns the exit status, or minus the signal that it gets now."""
        if signal_number is not None:
            with contextlib.suppress(ProcessLookupError):  # It has ended.
                os.kill(self.process, signal_number)
        return self._started.end()

    def finish(self):
        assert self.end() == 0, self.log


def kill_sometime(command, kind, moments):
    """Kills a command at a random moment of a kind.

    Returns:
      The number of lines that it had logged, and whether it was writing.
    """
    if kind == "preemption":
        return preempt(command)
    if kind == "start-up":
        # Imports are done, so this is tracing and the first steps.
        time.sleep(moments.uniform(0.0, 5.0))
    else:
        lines = moments.randint(1, 4)
        command.wait_for(lambda: len(command.steps()) >= lines)
    if kind == "save":
        command.wait_for(command.is_writing)
    elif kind == "evaluation":
        seen = len(command.steps())
        # The line of a training step after which it evaluates.
        command.wait_for(
            lambda: any(s % 4 == 0 for s in command.steps()[seen:])
        )
    elif kind == "loop":
        time.sleep(moments.uniform(0.0, 0.1))
    writing = command.is_writing()
    assert command.end(signal.SIGKILL) == -signal.SIGKILL, command.log
    return len(command.steps()), writing


def preempt(command):
    """Ends a run as machines that are taken away do; returns as above."""
    command.wait_for(lambda: len(command.steps()) > 5)
    assert command.end(signal.SIGTERM) == 0
    run = command.checkpoints.parent
    step = max(list_checkpoints(command.checkpoints))
    assert step < PRETRAIN["num_train_steps"]
    assert "SIGTERM: finishing the current steps, then saving" in command.log
    assert command.log.splitlines()[-1] == (
        f"Stopped after step {step}, saved in {run}; the same command resumes."
    )
    return len(command.steps()), False


def curve(run):
    """All lines of the log without times and rates, in their order."""
    names = ("loss", "gradient_norm", "accuracy")
    return [
        (x["step"], x["split"], *(x["values"].get(name) for name in names))
        for x in read_metrics(run)
    ]


def assert_same(run, expected):
    ours, theirs = map(read_checkpoint, map(find_checkpoint, (run, expected)))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    ours, theirs = (read_best(path / "checkpoints") for path in (run, expected))
    assert ours == theirs
    assert curve(run) == curve(expected)


@pytest.fixture(scope="module")
def flags(records, checkpoint, tmp_path_factory):
    """Name of a command -> its flags, without the output."""
    table = tmp_path_factory.mktemp("tables") / "texts.csv"
    rows = [f"text number {n},{'yes' if n % 3 else 'no'}" for n in range(32)]
    table.write_text("\n".join(["text,label", *rows]) + "\n")
    own = {"train": table, "dev": table, "init_from": checkpoint}
    return {
        "pretrain": PRETRAIN | {"input": records},
        "finetune": FINETUNE | own,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "devices", "kinds", "changes"),
    [
        ("pretrain", 1, KINDS * 5, {}),
        ("pretrain", 2, KINDS * 5, {}),
        ("pretrain", 1, KINDS * 2, {"phases": json.dumps(PHASES)}),
        ("pretrain", 1, ("preemption",), {}),
        ("finetune", 1, KINDS * 2, {}),
    ],
)
def test_killed_run_ends_bit_equal(
    begin_albert, flags, contents, tmp_path, name, devices, kinds, changes
):
    def command(folder):
        given = flags[name] | changes
        return Command(begin_albert, name, folder, given, devices)

    expected, run = tmp_path / "expected", tmp_path / "run"
    command(expected).finish()
    moments = random.Random(devices)
    found = [
        kill_sometime(command(run), kind, moments)
        for kind in moments.sample(kinds, len(kinds))
    ]
    # They were spread: before the first step, later, and into a save.
    assert any(lines > 1 for lines, _ in found)
    if "start-up" in kinds:
        assert any(lines == 0 for lines, _ in found)
        assert any(writing for _, writing in found)
    command(run).finish()
    assert_same(run, expected)
    if name == "finetune":
        assert contents(run / "model") == contents(expected / "model")


def leftovers(folder):
    """Returns what is left of temporary folders and of jobs in them."""
    found = [*folder.glob(".*.tmp"), *folder.glob(".*.tmp/.job")]
    return sorted(path.suffix or path.name for path in found)


def children_of(process):
    """Returns the ids of the processes that a process has started."""
    tasks = pathlib.Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


@pytest.mark.long
def test_killed_create_data_goes_on(
    begin_albert, corpus, small_tokenizer, contents, tmp_path
):
    model = tmp_path / "spiece.model"
    model.write_bytes(small_tokenizer.model_bytes)
    text = (corpus / "a.txt").read_text("utf-8")
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(text * 8, "utf-8")
    given = CREATE_DATA | {"input": f"{tmp_path}/*.txt"}
    given |= {"spm_model_file": model}

    def command(name):
        return Command(
            *(begin_albert, "create-data", tmp_path / name, given),
            before=SMALL_BLOCKS,
        )

    started = time.monotonic()
    command("whole").finish()
    seconds = time.monotonic() - started
    whole, moments = contents(tmp_path / "whole"), random.Random(4)
    stages = collections.Counter()
    for number in range(4):
        killed = command("data")
        if number == 0:  # In the middle, however long it takes to start.
            killed.wait_for(lambda: leftovers(tmp_path))
        else:
            time.sleep(moments.uniform(0.2, 1.0) * seconds)
        workers = children_of(killed.process)
        killed.end(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while any(map(is_alive, workers)):  # Nobody else would end them.
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if (tmp_path / "data").exists():
            stages["complete"] += 1
            assert contents(tmp_path / "data") == whole
            shutil.rmtree(tmp_path / "data")
        else:
            stages[" ".join(leftovers(tmp_path)) or "nothing"] += 1
    command("data").finish()
    assert contents(tmp_path / "data") == whole
    assert not leftovers(tmp_path)
    assert stages.keys() - {"nothing", "complete"}


def sha256_of_complete(folder):
    """Checks that an export is complete; returns the sha256 of its weights."""
    assert (folder / "README.md").stat().st_size > 1000
    asset = tf.saved_model.load(folder).sp_model_file.asset_path
    assert pathlib.Path(asset.numpy().decode()).exists()
    return json.loads((folder / "export.json").read_text())["weights_sha256"]


@pytest.mark.long
def test_killed_export_is_complete_or_absent(
    begin_albert, checkpoint, tokenizer, tmp_path
):
    output, other = tmp_path / "export", tmp_path / "other"
    model = AlbertPretrainer.from_pretrained(checkpoint)
    model.encoder.pooler.bias.assign_add(model.encoder.pooler.bias + 1.0)
    model.save_pretrained(other, tokenizer)

    def command(source):
        given = {"model": source, "overwrite": "true"}
        return Command(begin_albert, "export", output, given)

    def temporaries():
        return list(tmp_path.glob(f".{output.name}.*"))

    # First into no folder, then into one with the export of the first model.
    complete = set()
    for source in (checkpoint, other):
        # A command is killed when this file is in its temporary folder; "" is
        # the folder itself.
        for moment in ("", "saved_model.pb", "export.json"):
            process = command(source)
            process.wait_for(
                lambda name=moment: any(
                    (x / name).exists() for x in temporaries()
                )
            )
            assert process.end(signal.SIGKILL) in (0, -signal.SIGKILL)
            # A hidden folder is left, but not that of the previous command.
            assert len(temporaries()) <= 1
            if complete or output.exists():
                complete.add(sha256_of_complete(output))
        command(source).finish()
        complete.add(sha256_of_complete(output))
        assert temporaries() == []
    assert len(complete) == 2
