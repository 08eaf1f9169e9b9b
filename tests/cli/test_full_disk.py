"""Every command on a disk that is too small: one line, and nothing is left."""

import contextlib
import os
import shlex
import subprocess

import pytest

from albert_tf.cli.main import main

DATA = (
    "create-data --input=text.txt --spm_model_file=vocab/spiece.model "
    "--output=disk/new --max_seq_length=32 --max_predictions_per_seq=5"
)
FINETUNE = (
    "finetune --task=text --train=tasks/classes.csv --dev=tasks/classes.csv "
    "--init_from=run --num_train_steps=2 --log_steps=1 --max_seq_length=32"
)
# Command -> sizes of disks in KiB: for nothing, and for a part of the output.
COMMANDS = {
    "train-vocab --input=text.txt --output=disk/new --vocab_size=40": [8],
    f"{DATA} --num_workers=1": [8, 64],
    f"{DATA} --masking=static --num_workers=2": [8, 64],
    "pretrain --input=records --config=run/config.json --output=disk/new "
    "--num_train_steps=2 --num_warmup_steps=0 --train_batch_size=4 "
    "--save_checkpoints_steps=1 --log_steps=1": [8, 300],
    f"{FINETUNE} --output=disk/new": [8, 300],
    "predict --model=finetuned/joint_spans --input=tasks/squad2.json "
    "--squad_output=disk/new": [8],
    "embed --model=pretrainer --input=text.txt --output=disk/new.npy": [8],
    "embed --model=pretrainer --input=text.txt --output=disk/new.jsonl": [8],
    "convert --input=run --output=disk/new": [8, 64],
    "convert --input=run --to=google --output=disk/new": [8, 64],
    "export --kind=preprocessor --model=run --output=disk/new": [8, 300],
    "export --kind=litert --model=run --output=disk/new": [64],
}


@contextlib.contextmanager
def disk_of(folder, kibibytes):
    """Mounts an empty disk of this size at a folder."""
    options = f"size={kibibytes}k"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root mounts disks")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_and_status_1(
    command, artifacts, tmp_path, monkeypatch, capfd
):
    disk = tmp_path / "disk"
    disk.mkdir()
    for path in artifacts.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    for kibibytes in COMMANDS[command]:
        with disk_of(disk, kibibytes):
            status = main(shlex.split(command))
            errors = capfd.readouterr().err
            left = os.listdir(disk)
        name = command.split()[0]
        reports = [
            line
            for line in errors.splitlines()
            if line.startswith(f"albert: {name}: ")
        ]
        assert status == 1, errors
        assert len(reports) == 1, errors
        assert "Traceback" not in errors
        assert "disk/new" in reports[0]
        assert "No space left on device" in reports[0]
        # What a run has written is what it resumes from.
        assert not left or (name in ("pretrain", "finetune") and kibibytes > 8)
