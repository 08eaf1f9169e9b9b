import pathlib
import subprocess
import sys

import pytest

from albert_tf.cli.main import COMMANDS, main

RECIPES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in (
        pathlib.Path(__file__).parents[2] / "official_configs" / "recipes"
    ).glob("*/*.flags")
)
# What a recipe leaves to the user, who is told of it first.
LEFT = {"pretrain": "--input", "finetune": "--init_from"}


def albert(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "albert_tf", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def one_line(text):
    assert text.count("\n") == 1, text
    return text


def test_usage_lists_the_commands(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    usage = capsys.readouterr().out
    for command in COMMANDS:
        assert command in usage


def test_unknown_command(capsys):
    assert main(["pretrian"]) == 2
    error = one_line(capsys.readouterr().err)
    assert "'pretrian'" in error
    assert "pretrain" in error


def test_grouped_help_has_every_flag_once():
    for command, flag in (("pretrain", "seed"), ("analyze", "precision")):
        result = albert(command, "--help")
        text = result.stdout
        assert result.stderr == ""
        # What is in no group would come under that heading.
        assert "\nFlags:\n" not in text
        assert text.count(f"\n  --{flag}: ") == 1
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train-vocab", "--input=/nowhere/*.txt", "--output=x"], "/nowhere"),
        (["export", "--model=/nowhere", "--output=x"], "/nowhere"),
        (["evaluate", "--run=/nowhere", "--input=/nowhere"], "/nowhere"),
        (["evaluate", "--input=x"], "--run, --checkpoints and --model"),
        # Every flag of a recipe is one of the command's.
        *(
            ([command, f"--recipe={name}", "--output=x"], LEFT[command])
            for name in RECIPES
            for command in [name.split("/")[0]]
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, capfd):
    assert main(arguments) == 2
    output = capfd.readouterr()
    assert message in one_line(output.err)
    assert output.out == ""


def test_parameter_table():
    result = albert("analyze", "parameters", "albert_xxlarge_v2")
    assert "222,595,584" in result.stdout
    assert result.stderr == ""


def test_memory_table():
    arguments = ("analyze", "memory", "albert_xxlarge_v2", "--rematerialize")
    result = albert(*arguments)
    # 223,158,450 weights of four bytes, and two moments of each.
    assert result.stdout.splitlines()[1].split()[1:3] == ["851", "1,703"]
    assert result.stderr == ""
