"""Flags that exclude each other: later ones replace earlier ones."""

import json

import pytest

from albert_tf.cli.commands import command_flags
from albert_tf.cli.main import expand_recipes
from albert_tf.errors import InputError

RECIPE = "--recipe=finetune/mrpc"  # 800 steps, 200 of them warm-up
STEPS = ("num_train_epochs", "num_train_steps")
WARMUP = ("num_warmup_steps", "warmup_proportion")


def chosen(arguments, names, command="finetune"):
    flags = command_flags(command)
    required = ("--init_from=a", "--output=b", "--task=text")
    if command != "finetune":
        required = ()
    flags.parse(command, expand_recipes([*required, *arguments.split()]))
    flags.choose(*names)
    return flags


@pytest.mark.parametrize(
    ("arguments", "names", "kept", "value"),
    [
        (RECIPE, STEPS, "num_train_steps", 800),
        (f"{RECIPE} --num_train_epochs=2", STEPS, "num_train_epochs", 2.0),
        (
            f"{RECIPE} --num_train_epochs 2 --num_train_steps=0",
            STEPS,
            "num_train_epochs",
            2.0,
        ),
        (f"--num_train_epochs=2 {RECIPE}", STEPS, "num_train_steps", 800),
        (f"{RECIPE} --num_train_steps=9", STEPS, "num_train_steps", 9),
        (f"{RECIPE} --warmup_proportion=0", WARMUP, "warmup_proportion", 0.0),
        # Its default, but given.
        (f"{RECIPE} --warmup_proportion=.1", WARMUP, "warmup_proportion", 0.1),
        (f"{RECIPE} --num_warmup_steps=0", WARMUP, "num_warmup_steps", 0),
    ],
)
def test_later_flags_replace_those_of_recipes(arguments, names, kept, value):
    flags = chosen(arguments, names)
    assert f"--{kept}={value}\n" in flags.as_text()
    (other,) = set(names) - {kept}
    assert f"--{other}=" not in flags.as_text()
    assert flags.changed(other) == []


def test_flagfiles_in_flagfiles_are_replaced_too(tmp_path):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("--num_train_steps=8\n")
    outer.write_text(f"--flagfile={inner}\n--num_train_epochs=2\n")
    flags = chosen(f"--flagfile={outer}", STEPS)
    assert flags.changed(*STEPS) == ["num_train_epochs"]
    # What the flagfile of a run lists besides is only a default.
    outer.write_text("--num_warmup_steps=200\n--warmup_proportion=0.1\n")
    flags = chosen(f"--flagfile={outer}", WARMUP)
    assert flags.changed(*WARMUP) == ["num_warmup_steps"]
    outer.write_text("--num_warmup_steps=200\n--warmup_proportion=0.2\n")
    with pytest.raises(InputError, match="either --num_warmup_steps or --warm"):
        chosen(f"--flagfile={outer}", WARMUP)
    inner.write_text("--run=a\n--input=x\n")
    names = ("run", "checkpoints", "model")
    flags = chosen(f"--flagfile={inner} --model=b", names, "evaluate")
    assert flags.given("model")
    assert flags.changed(*names) == ["model"]


@pytest.mark.long
def test_a_recipe_for_some_epochs_and_its_flagfile(folder, albert):
    data = folder / "SST-2"
    data.mkdir()
    rows = [f"a {word} film\t{n % 2}" for n, word in enumerate("abcdefgh")]
    for split in ("train", "dev"):
        text = "\n".join(["sentence\tlabel", *rows])
        (data / f"{split}.tsv").write_text(f"{text}\n")
    command = (
        "finetune --recipe=finetune/sst2 --data=SST-2 --init_from=start "
        "--output=sst2 --max_seq_length=32 --train_batch_size=4 "
        "--num_train_epochs=2 --warmup_proportion=0.5"
    )
    result = albert(folder, command)
    assert result.returncode == 0, result.stderr
    assert "4 steps of 4 (2.0 epochs)" in result.stderr
    assert "highest rate 1e-05 after 2 steps" in result.stderr
    before = json.loads((folder / "sst2" / "run.json").read_text())
    # The run's flags are those of the same run.
    result = albert(folder, "finetune --flagfile=sst2/flags.txt")
    assert result.returncode == 0, result.stderr
    assert "which holds this run already" in result.stderr
    assert json.loads((folder / "sst2" / "run.json").read_text()) == before
    # Files replace the folder that they name.
    result = albert(
        folder,
        "finetune --flagfile=sst2/flags.txt --train=SST-2/train.tsv "
        "--output=other --num_train_steps=1",
    )
    assert result.returncode == 0, result.stderr
    assert "none to score on" in result.stderr
