"""Every file that a command reads, damaged: success, or one line and status 2.

`ALBERT_TF_HOSTILE=2000 pytest tests/cli/test_hostile_files.py` tries more
cases; `ALBERT_TF_FUZZ_SEED` draws others.
"""

import contextlib
import json
import os
import random
import shlex
import shutil
import signal

import pytest
from json_variants import variants

from albert_tf.cli.commands import COMMANDS
from albert_tf.cli.main import main

CASES = int(os.environ.get("ALBERT_TF_HOSTILE", "44"))
SEED = os.environ.get("ALBERT_TF_FUZZ_SEED", "0")
SECONDS = 60  # that no command takes

NEW = "--config_overrides=num_hidden_layers=1 --output=new --num_train_steps=1"
# Command -> files and folders that it reads.
READS = {
    "evaluate --run=run --input=records --max_eval_steps=1": "run records",
    "evaluate --model=finetuned/classes --input=tasks/classes.csv": (
        "finetuned/classes tasks/classes.csv"
    ),
    "predict --model=seeds --text=a": "seeds",
    "evaluate --model=seeds --data=tasks/glue": (
        "seeds/runs.json seeds/run-0/model seeds/run-1/model"
    ),
    "predict --model=finetuned/joint_spans --input=tasks/squad2.json "
    "--output=answers.jsonl": "finetuned/joint_spans/model tasks/squad2.json",
    "fill-mask --model=pretrainer --text=[MASK]": "pretrainer",
    "embed --model=exports/encoder --text=a": "exports/encoder",
    "embed --model=pretrainer --input=text.txt": "text.txt",
    "sentence-order --model=run --input=pairs.tsv": "run pairs.tsv",
    "convert --input=run --output=new": "run",
    "convert --input=run --spm_model_file=vocab/spiece.model --output=new": (
        "vocab"
    ),
    "convert --input=finetuned/words --to=google --output=new": (
        "finetuned/words"
    ),
    "export --kind=preprocessor --model=run --output=new": "run",
    "export --kind=onnx --layout=huggingface --model=run --output=new": "run",
    "export --check=exports/litert_encoder": "exports/litert_encoder",
    "analyze run interrupted/run": "interrupted/run",
    "analyze parameters run": "run",
    "analyze data records": "records",
    "analyze similarity pretrainer --input=text.txt": "pretrainer text.txt",
    "train-vocab --input=text.txt --output=new --vocab_size=40": "text.txt",
    "create-data --input=text.txt --spm_model_file=vocab/spiece.model "
    "--output=new": "text.txt vocab",
    "convert-data --input=records --output=new --num_epochs=1": "records",
    "pretrain --flagfile=interrupted/run/flags.txt": "interrupted/run records",
    f"pretrain --input=records --config=run/config.json {NEW} "
    "--phases=phases.json": "records run/config.json phases.json",
    "finetune --flagfile=interrupted/classes/flags.txt": (
        "interrupted/classes tasks/classes.csv"
    ),
    f"finetune --task=text --train=tasks/classes.csv --init_from=run {NEW}": (
        "run tasks/classes.csv"
    ),
}
# `serve` reads models as `predict` and `embed` do, but would not end.
WITHOUT_FILES = {"demo", "ablate", "completion", "serve"}


def make_pipe(path):
    os.mkfifo(path)


def make_endless(path):
    path.symlink_to("/dev/zero")


def make_loop(path):
    path.symlink_to(path.name)


def make_huge(path):
    path.touch()
    os.truncate(path, 1 << 40)


def make_folder(path):
    path.mkdir()


SPECIAL = (make_pipe, make_endless, make_loop, make_huge, make_folder)
BYTES = (
    *(b"", b"\0", b"\xff" * 99, b"{", b"[]", b"null", b"5", b"NaN"),
    *(b'{"a": "\\ud800"}', b"[" * 100_000, b'{"a":' * 100_000),
    *(b"9" * 5000, b"x" * 100_000, b"\n" * 1000, b"PK\3\4", b"\x1f\x8b\x08"),
)
VALUES = (
    *(None, True, -1, 0, 5, 0.5, 10**30, 10**400, float("nan"), float("inf")),
    *("", "x", "../x", "\ud800", "a\0", [], [5], [[]], {}, {"": {}}),
)


def damages(path):
    """Yields functions that put something else in the place of a file."""
    yield from SPECIAL
    content = path.read_bytes()
    for changed in (
        *BYTES,
        *(content[: len(content) // 2], content[:-1], content + b"x"),
    ):
        yield lambda path, changed=changed: path.write_bytes(changed)
    # Only a few of these thousands are written.
    if path.suffix == ".json":
        for value in variants(json.loads(content), VALUES, most=50):
            yield lambda path, value=value: path.write_bytes(dumped(value))
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in content.splitlines()]
        for rows in variants(lines, VALUES, most=50):
            if isinstance(rows, list):
                yield lambda path, rows=rows: path.write_bytes(
                    b"\n".join(map(dumped, rows)) + b"\n"
                )


def dumped(value):
    # Python's limit of the digits of integers does not hold for their repr.
    return json.dumps(value).encode()


def files_of(folder, paths):
    for path in map(folder.joinpath, paths.split()):
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (x.relative_to(folder) for x in files if x.is_file())


def prepare(artifacts, folder, paths):
    """Copies the files that a command may change, and links the others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tops = {path.split("/")[0] for path in paths.split()}
    for path in artifacts.iterdir():
        if path.name not in tops:
            (folder / path.name).symlink_to(path)
        elif path.is_dir():
            shutil.copytree(path, folder / path.name)
        else:
            shutil.copy(path, folder / path.name)


class _TimeoutError(BaseException):
    """Is not caught as an ordinary error."""


def expire(*_):
    raise _TimeoutError


def problem_of(arguments, capfd):
    """Runs a command; returns what is wrong with how it ends, or ""."""
    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(SECONDS)
    try:
        status = main(arguments)
    except SystemExit as exit:
        status = exit.code
    except _TimeoutError:
        return f"took more than {SECONDS} seconds"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    errors = capfd.readouterr().err
    if status == 0 and "Traceback" not in errors:
        return ""
    lines = [x for x in errors.splitlines() if not x.startswith("WARNING")]
    reports = [x for x in lines if x.startswith(f"albert: {arguments[0]}: ")]
    if status == 2 and len(reports) == 1 and "Traceback" not in errors:
        return ""
    # Of records of a huge text.
    if status == 1 and "No space left on device" in reports[0]:
        return ""
    return f"status {status}: {errors}"


def test_every_command_is_tried():
    tried = {shlex.split(command)[0] for command in READS}
    assert tried | WITHOUT_FILES == set(COMMANDS)


@pytest.mark.parametrize("command", READS)
@pytest.mark.parametrize(
    "cases_of_all", [CASES, pytest.param(1000, marks=pytest.mark.slow)]
)
def test_damaged_files(
    command, cases_of_all, artifacts, tmp_path, monkeypatch, capfd, eagerly
):
    paths = READS[command]
    rng = random.Random(f"{SEED} {command}")
    cases = [
        (path, damage)
        for path in files_of(artifacts, paths)
        for damage in damages(artifacts / path)
    ]
    # To trace graphs takes longer than all else; an export consists of them.
    no_graph = contextlib.nullcontext if "export" in command else eagerly
    problems = []
    folder = tmp_path / "case"
    number = max(1, cases_of_all // len(READS))
    if "--check" in command:  # It starts a process, which takes long.
        number = number // 10 + 1
    for path, damage in rng.sample(cases, min(len(cases), number)):
        prepare(artifacts, folder, paths)
        target = folder / path
        target.unlink()
        damage(target)
        monkeypatch.chdir(folder)
        with no_graph():
            problem = problem_of(shlex.split(command), capfd)
        if problem:
            shown = damage
            if target.is_file():
                with target.open("rb") as file:
                    shown = file.read(300)
            problems.append(f"{path}: {shown}: {problem}")
    assert not problems, "\n\n".join(problems)
