import contextlib
import logging
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.__main__ import run
from albert_tf.cli import main as cli
from albert_tf.cli.commands import COMMANDS, command_flags
from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.main import expand_recipes, main
from albert_tf.quiet_import import quiet_by_default

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


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["pretrain", "--help"], ["analyze", "parameters"]],
)
def test_output_that_cannot_be_written(arguments):
    command = [sys.executable, "-m", "albert_tf", *arguments]
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 1
    assert "No space left on device" in one_line(result.stderr)
    # As in `| head`, whose reader has read enough.
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "closed", "status", "message"),
    [
        ("--version", ">&-", 0, ""),
        ("predict --nosuch", "2>&-", 2, ""),
        (
            "embed --model=albert_tiny_en --output=x.npy",
            "<&-",
            2,
            "albert: embed: standard input has no text\n",
        ),
    ],
)
def test_closed_streams(arguments, closed, status, message, tmp_path):
    command = f"{shlex.quote(sys.executable)} -m albert_tf {arguments} {closed}"
    result = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (status, "")
    assert result.stderr == message
    assert not list(tmp_path.iterdir())


def test_unknown_command(capsys):
    assert main(["pretrian"]) == 2
    error = one_line(capsys.readouterr().err)
    assert "'pretrian'" in error
    assert "did you mean pretrain?" in error


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
        ([command, f"--recipe={name}", "--output=x"], LEFT[command])
        for name in RECIPES
        for command in [name.split("/")[0]]
    ],
)
def test_every_flag_of_a_recipe_is_known(arguments, message, capfd):
    assert main(arguments) == 2
    output = capfd.readouterr()
    assert message in one_line(output.err)
    assert output.out == ""


def test_version(capsys):
    assert main(["--version"]) == 0
    printed = capsys.readouterr().out
    assert f"albert {albert_tf.__version__}, tensorflow {tf.__version__}," in (
        printed
    )


def test_list_of_recipes(capsys):
    assert main(["--list_recipes"]) == 0
    assert capsys.readouterr().out.split() == RECIPES
    assert main(["pretrain", "--list_recipes"]) == 0
    ours = [name for name in RECIPES if name.startswith("pretrain/")]
    assert capsys.readouterr().out.split() == ours
    assert main(["export", "--list_recipes"]) == 0
    assert capsys.readouterr().out == "export has no recipes\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_parse_and_choices_are_named(command, capsys):
    assert main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    text = printed.partition("\nExamples:\n")[2].partition("\n\n")[0]
    lines = text.replace("\\\n", " ").strip().splitlines()
    assert len(lines) >= 2
    for line in lines:
        words = shlex.split(line.rpartition("| ")[2].partition(" > ")[0])
        assert words[:2] == ["albert", command]
        flags = command_flags(command)
        flags.parse(command, expand_recipes(words[2:]))
    for name, declared in command_flags(command).settings.items():
        text = printed.partition(f"--{name}: ")[2].partition("\n  --")[0]
        assert set(filter(None, declared.choices)) <= set(
            re.findall(r"[\w.-]*\w", text)
        )


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["pretr"], ["pretrain"]),
        (["pretrain", "--optimi"], ["--optimizer"]),
        (["pretrain", "--precision", "mixed_b"], ["mixed_bfloat16"]),
        (["pretrain", "--norema"], ["--norematerialize"]),
        (["finetune", "--recipe", "finetune/ss"], ["finetune/sst2"]),
    ],
)
def test_completion_in_bash(words, completed, completion_script):
    program = (
        f"source {completion_script}; "
        f"COMP_WORDS=(albert {shlex.join(words)}); COMP_CWORD={len(words)}; "
        '_shtab_albert albert; printf "%s\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == completed


@pytest.fixture(scope="module")
def completion_script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "albert"
    with open(path, "w") as file, contextlib.redirect_stdout(file):
        assert main(["completion", "bash"]) == 0
    return path


def test_parameter_table():
    result = albert("analyze", "parameters", "albert_xxlarge_v2")
    assert "222,595,584" in result.stdout
    assert result.stderr == ""


def test_memory_table(capfd):
    command = "analyze memory albert_xxlarge_v2 --rematerialize"
    assert main(command.split()) == 0
    output = capfd.readouterr()
    # 223,158,450 weights of four bytes, and two moments of each.
    assert output.out.splitlines()[1].split()[1:3] == ["851", "1,703"]
    assert output.err == ""


@pytest.fixture
def interrupts():
    """Handles Ctrl-C as Python does; pytest's workers ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    cli._interrupted = False


def test_interrupt_that_is_raised_as_another_error(
    monkeypatch, interrupts, capfd
):
    """As in the import of optree, whose C++ turns it into an ImportError."""

    def parse(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("you need to have optree installed") from None

    monkeypatch.setattr(CommandFlags, "parse", parse)
    monkeypatch.setattr("sys.argv", ["albert", "pretrain"])
    with pytest.raises(SystemExit) as exit:
        run()
    assert exit.value.code == 130
    assert capfd.readouterr().err == "albert: interrupted\n"


def test_run_leaves_the_loggers_as_they_were(monkeypatch):
    """Or warnings after it would go to a stream that may be closed."""
    logger = logging.getLogger("albert_tf")
    before = list(logger.handlers), logger.propagate
    monkeypatch.setattr("sys.argv", ["albert", "--version"])
    with pytest.raises(SystemExit):
        run()
    assert (logger.handlers, logger.propagate) == before


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (FileNotFoundError(2, "No such file", "a"), 2, "a: No such file"),
        (OSError(36, "File name too long", "a"), 2, "a: File name too long"),
        (OSError(28, "No space left", "a", None, "b"), 1, "a -> b: No space"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "x"), 2, "not UTF-8"),
        (MemoryError("of 9 GB"), 1, "out of memory (of 9 GB)"),
        (ValueError("two\nlines"), 1, "ValueError: two lines (--debug"),
    ],
)
def test_system_errors(error, status, message, monkeypatch, capfd):
    def parse(*_):
        raise error

    monkeypatch.setattr(CommandFlags, "parse", parse)
    assert main(["pretrain"]) == status
    text = one_line(capfd.readouterr().err)
    assert text.startswith("albert: pretrain: ")
    assert message in text


PROGRAMS = {
    # The first name does without TensorFlow.
    "python": [
        *("-W", "ignore", "-c"),
        "import albert_tf; albert_tf.AlbertConfig; albert_tf.AlbertEncoder",
    ],
    "package": [
        *("-W", "ignore", "-c"),
        "import albert_tf; albert_tf.HubLayer",
    ],
    "command": ["-m", "albert_tf", "convert", "--input=none", "--output=none"],
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "level"),
    [
        *(
            pytest.param("python", level, marks=pytest.mark.slow)
            for level in (None, "0", "1", "2", "3")
        ),
        pytest.param("command", "3", marks=pytest.mark.slow),
        ("command", None),
        ("command", "0"),
        ("package", None),
    ],
)
def test_start_up_messages(program, level):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TF_CPP")
    }
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    result = subprocess.run(
        [sys.executable, *PROGRAMS[program]],
        env=environment,
        capture_output=True,
        text=True,
    )
    lines = result.stderr.splitlines()
    if program == "command":
        assert result.returncode == 2
        assert lines.pop().startswith("albert: convert: ")
    else:
        assert result.returncode == 0, result.stderr
    if level == "0":
        assert "oneDNN custom operations are on" in result.stderr
    else:
        assert lines == []


@pytest.mark.parametrize(
    ("level", "severities"),
    [(None, "E"), ("0", "IWE"), ("1", "WE"), ("2", "E"), ("3", "E")],
)
def test_which_messages_are_hidden(monkeypatch, capfd, level, severities):
    if level is None:
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    else:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    monkeypatch.delitem(sys.modules, "tensorflow")
    with quiet_by_default():
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == (level or "3")
        for severity in "IWE":
            line = f"{severity}0000 00:00:17.9 7 port.cc:153] a message\n"
            os.write(2, line.encode())
        os.write(
            2, b"E0000 00:00:17.9 7 x.cc:1] Unable to register cuDNN factory"
        )
        os.write(2, b": Attempting to\n")
        os.write(2, b"a warning\n")
    *lines, last = capfd.readouterr().err.splitlines()
    if level == "0":
        assert "cuDNN" in lines.pop()
    assert [line[0] for line in lines] == list(severities)
    assert last == "a warning"
    # TensorFlow is to come.
    assert os.environ.get("TF_CPP_MIN_LOG_LEVEL") == level
