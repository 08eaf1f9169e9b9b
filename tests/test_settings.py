"""Settings: declared once, as fields of config dataclasses."""

import dataclasses
import json
import types

import pytest

import albert_tf
from albert_tf.cli.commands import COMMANDS
from albert_tf.cli.flags import CommandFlags
from albert_tf.cli.main import main
from albert_tf.errors import InputError
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.settings import MACHINE, parse_values, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extended(PretrainConfig):
    # The one line that a new setting takes.
    label_smoothing: float = setting(
        0.0, "Smooth the labels.", group=MACHINE, bounds="[0, 1)"
    )


@pytest.mark.parametrize(
    ("verb", "arguments", "instead"),
    [
        ("convert", ["run", "model"], "ConvertConfig(input=..., output=...)"),
        ("create_pretraining_data", [], "PretrainingDataConfig(input=..., t"),
        ("evaluate", ["reviews", "dev.tsv"], "EvaluateConfig(...)"),
        ("export", ["run", "e", "task"], "ExportConfig(model=..., output=...)"),
        ("finetune", ["sst2"], "FinetuneConfig(task=..., output=..., init_f"),
        ("pretrain", ["data"], "PretrainConfig(output=..., input=...)"),
    ],
)
def test_verbs_say_what_they_take(verb, arguments, instead):
    with pytest.raises(TypeError) as error:
        getattr(albert_tf, verb)(*arguments)
    assert f"{verb}({instead}" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_setting_is_one_line(tmp_path):
    flags = CommandFlags(Extended)
    assert "--label_smoothing: Smooth the labels. (default: 0.0)" in (
        flags.help()
    )
    recipe = tmp_path / "recipe.flags"
    recipe.write_text("--label_smoothing=0.1\n--learning_rate=0.5\n")
    flags.parse(
        "pretrain", [f"--flagfile={recipe}", "--input=data", "--output=run"]
    )
    config = flags.build(Extended)
    assert (config.label_smoothing, config.learning_rate) == (0.1, 0.5)
    # What `RunFolder.claim` writes to run.json.
    recorded = json.loads(json.dumps(config.settings()))
    assert recorded["label_smoothing"] == 0.1
    assert "--label_smoothing=0.1" in flags.as_text()
    with pytest.raises(InputError, match=r"label_smoothing=2.0 must be in \["):
        Extended(input="data", output="run", label_smoothing=2.0)


def test_a_config_without_flags_has_the_defaults_of_the_command():
    flags = CommandFlags(PretrainConfig)
    flags.parse("pretrain", ["--input=data", "--output=run"])
    assert flags.build(PretrainConfig) == PretrainConfig(
        input="data", output="run"
    )


def test_pretraining_starts_from_albert_base_v2_unless_told_otherwise():
    config = PretrainConfig(
        input="data", output="run", config_overrides={"vocab_size": 8000}
    )
    assert config.architecture == albert_tf.AlbertConfig.from_official(
        "albert_base_v2", vocab_size=8000
    )
    assert PretrainConfig(input="x", output="y", init_from="z").model is None


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"albert {command}: ")
    assert "\n  --" in text or command == "completion"


def test_public_names_can_be_imported():
    for name in albert_tf.__all__:
        assert callable(getattr(albert_tf, name)), name
    assert sorted(albert_tf.__all__) == sorted(albert_tf._MODULES)
    assert isinstance(albert_tf.export, types.FunctionType)


def test_a_name_may_be_given_once():
    found = parse_values("config_overrides", "vocab_size=8,sharing=none")
    assert found == {"vocab_size": 8, "sharing": "none"}
    with pytest.raises(InputError, match="config_overrides: a is given twice"):
        parse_values("config_overrides", "a=1,b=2,a=3")
