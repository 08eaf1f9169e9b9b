"""Every command with generated flags: success, or one line and status 2.

`ALBERT_TF_FUZZ=2000 pytest tests/cli/test_fuzz.py` tries more cases;
`ALBERT_TF_FUZZ_SEED` draws others.
"""

import contextlib
import importlib
import os
import random
import shlex
import shutil
import stat

import pytest

from albert_tf.cli.commands import COMMANDS
from albert_tf.cli.main import main
from albert_tf.settings import settings_of

CASES = int(os.environ.get("ALBERT_TF_FUZZ", "60"))
SEED = os.environ.get("ALBERT_TF_FUZZ_SEED", "0")

NUMBERS = (
    *("nan", "inf", "-inf", "1e308", "1e-320", "-1", "0", "1", "2", "0.5"),
    *("-0.0", "2147483648", str(2**63), "9" * 400, "1e5", "0x10", "1_0"),
    *("٣", "", " ", "true", "None", "[]", "a,b", "\x00", "\udcff", "½"),
)
# Made by `folder`, and others that cannot be read or written.
PATHS = (
    *("absent", "absent/absent", "", " ", ".", "..", "device", "loop"),
    *("a" * 300, "b/" * 2500, "\udcff", "text.txt", "empty.txt", "binary"),
    *("spiece.model", "start", "start/model.safetensors", "data", "link"),
    *("train.csv", "squad.json", "config.json", "nested.json", "a,b", ","),
    *("gs://", "hf://", "kaggle://", "://", "text.txt,", "*", "[", "new"),
    *("text.txt/x", "data/manifest.json", "~", "$HOME", "-", "--", "new\n"),
)
# Runs, models, exports and records.
USABLE = (
    *("run", "records", "pretrainer", "exports/task_classes", "seeds"),
    *("finetuned/classes", "finetuned/joint_spans", "interrupted/run"),
    "finetuned/classes,finetuned/classes",
    *("tasks/classes.csv", "tasks/squad2.json", "tasks/words.txt"),
)
# What could take long, or asks a network, is left out.
LEFT_OUT = {"tpu", "gcp_project", "tpu_zone", "debug", "num_workers"}
WHOLE = ("parameters", "memory", "run", "data", "start", "", "absent")


@pytest.fixture(scope="module")
def folder(folder, artifacts):
    """The module's folder, with files that are of no use."""
    (folder / "empty.txt").write_text("")
    (folder / "binary").write_bytes(bytes(range(256)) * 40)
    (folder / "nested.json").write_text("[" * 100_000)
    (folder / "config.json").write_text('{"hidden_size": [], "vocab_size": 1}')
    (folder / "squad.json").write_text('{"data": [{"paragraphs": 5}]}')
    (folder / "train.csv").write_text("text,label\na,b\nc,d\n")
    shutil.copytree(artifacts, folder, dirs_exist_ok=True)
    (folder / "loop").symlink_to("loop")
    with contextlib.suppress(PermissionError):  # The device is /dev/null.
        os.mknod(folder / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (folder / "link").symlink_to("nowhere/at/all")
    return folder


def arguments_of(command, rng):
    """Returns a command line of mostly plausible flags."""
    module = importlib.import_module(
        f"albert_tf.cli.{command.replace('-', '_')}"
    )
    settings = {x.flag: x for c in module.CONFIGS for x in settings_of(c)}
    settings = {
        name: x
        for name, x in settings.items()
        if name is not None and name not in LEFT_OUT
    }
    names = [name for name, x in settings.items() if x.required]
    rng.shuffle(names)
    names = names[rng.random() < 0.1 :]
    if command == "demo":
        names.append("input")  # Without it, it runs for minutes.
    names += rng.sample(sorted(settings), min(len(settings), rng.randint(0, 4)))
    arguments = [f"--{name}={_value(settings[name], rng)}" for name in names]
    if command in ("pretrain", "finetune", "demo"):
        steps = 6 if command == "demo" else 1
        arguments.append(f"--num_train_steps={steps}")
    if getattr(module, "TAKES_ARGUMENTS", False):
        arguments += rng.choices(WHOLE, k=rng.randint(0, 3))
    return [command, *arguments]


def _value(setting, rng):
    if setting.choices and rng.random() < 0.8:
        return rng.choice(setting.choices)
    if setting.type in (int, float, bool) and rng.random() < 0.95:
        return rng.choice(NUMBERS)
    if rng.random() < 0.5:
        return rng.choice(USABLE)
    return rng.choice(PATHS if rng.random() < 0.95 else NUMBERS)


@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_or_success(command, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", open(os.devnull))
    rng = random.Random(f"{SEED} {command}")
    problems = []
    for _ in range(CASES // len(COMMANDS)):
        arguments = arguments_of(command, rng)
        try:
            status = main(arguments)
        except SystemExit as exit:
            status = exit.code
        errors = capfd.readouterr().err
        refused = errors.startswith(f"albert: {command}: ") and (
            errors.count("\n") == 1
        )
        if (
            status not in (0, 2)
            or "Traceback" in errors
            or (status == 2 and not refused)
        ):
            problems.append(f"{shlex.join(arguments)!a} -> {status}: {errors}")
    assert not problems, "\n".join(problems)
    device = folder / "device"
    assert not device.exists() or device.is_char_device()
