"""`albert demo` on the user's own text."""

import functools
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.demo.chain import run_demo
from albert_tf.demo.config import DemoConfig
from albert_tf.errors import InputError


@pytest.fixture
def text_files(text_file, tmp_path):
    documents = text_file.read_text("utf-8").split("\n\n\n")[:100]
    for number in range(2):
        path = tmp_path / f"my{number}.txt"
        path.write_text("\n\n\n".join(documents[number::2]), "utf-8")
    (tmp_path / "my2.txt").write_text("\n \n")  # skipped
    return tmp_path / "my*.txt"


@pytest.fixture
def demo(run_albert):
    """Returns `run(*flags)`, which runs `albert demo`."""
    return functools.partial(run_albert, "demo")


@pytest.mark.long
@pytest.mark.parametrize(
    "model_type", ["unigram", pytest.param("wordpiece", marks=pytest.mark.slow)]
)
def test_demo_on_the_users_text(
    demo, text_files, tmp_path, albert_command, model_type
):
    for package in ("tensorflow_hub", "tf_keras", "matplotlib"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install .[hub,plots]")
    output = tmp_path / "demo"
    arguments = [
        f"--input={text_files}",
        f"--output={output}",
        f"--model_type={model_type}",
        "--vocab_size=1000",
        "--num_train_steps=6",
        "--classifier_examples=32",
    ]
    result = demo(*arguments)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    # Six steps are too few, of which it warns, but no input is too long.
    assert "trained_positions" not in result.stderr
    summary = json.loads((output / "summary.json").read_text())
    scores = summary["scores"]
    assert scores["step"] == 6
    for shown in (
        f"{scores['mlm_accuracy']:.1%} right",
        f"most frequent token: {scores['mlm_unigram_accuracy']:.1%}",
        f"chance: {summary['classifier']['majority']:.1%}",
    ):
        assert shown in result.stdout
    assert "sentence order" not in result.stdout  # The records have none.
    assert (output / "summary.txt").read_text() in result.stdout + "\n"
    runs = summary["classifier"]["runs"]
    assert [(run["model"], run["trainable"]) for run in runs] == [
        (model, trainable)
        for model in ("albert_mini", "albert_tiny_en")
        for trainable in (False, True)
    ]
    for run in runs:
        kind = "fine-tuned" if run["trainable"] else "frozen"
        moved = run["encoder_weights"] if run["trainable"] else 0
        assert run["encoder_weights_moved"] == moved
        last = f"{kind}, epoch 3 of 3: test accuracy "
        assert last + f"{run['test_accuracy'][-1]:.1%}, " in result.stdout
        (row,) = (
            line
            for line in result.stdout.splitlines()
            if line.startswith(f"classifier, {kind} {run['model']} ")
        )
        assert f"{run['test_accuracy'][-1]:.1%} right" in row
    for model, folder in (("own", "hub"), ("packaged", "albert_tiny_en")):
        for name in ("encoder", "preprocessor"):
            assert (output / folder / name / "saved_model.pb").exists(), model
    layers = AlbertConfig.from_official("albert_mini").num_hidden_layers
    trained = json.loads((output / "run" / "config.json").read_text())
    assert trained["num_hidden_layers"] == layers > 1
    file = "vocab.txt" if model_type == "wordpiece" else "spiece.model"
    assert (output / "data" / file).exists()
    picture = (output / "curves.png").read_bytes()
    assert picture.startswith(b"\x89PNG")

    assert f"The curves are in {output / 'curves.png'}." in result.stdout
    _, _, commands = result.stdout.partition("\nNext, for example:\n")
    commands = commands.splitlines()
    assert len(commands) == 3
    path = f"{albert_command.parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands:
        found = subprocess.run(
            command.strip(),
            shell=True,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert found.returncode == 0, found.stderr
        assert found.stdout

    again = demo(*arguments)
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    assert again.stderr.count("\n") == 1


def test_text_too_small_for_the_vocabulary(demo, tmp_path):
    (tmp_path / "tiny.txt").write_text("A few words. And a few more.\n" * 3)
    result = demo(
        f"--input={tmp_path}/tiny.txt", f"--output={tmp_path / 'demo'}"
    )
    assert result.returncode == 2
    assert "vocab_size" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "demo").exists()  # The command can be repeated.


def test_text_without_passages_for_the_classifier(demo, tmp_path):
    """Is refused before the training; a folder that was there is emptied."""
    documents = (f"Story {n} of a cat and a dog.\n\n\n" for n in range(400))
    (tmp_path / "lines.txt").write_text("".join(documents))
    (tmp_path / "folder").mkdir()
    (tmp_path / "demo").symlink_to(tmp_path / "folder")
    result = demo(
        f"--input={tmp_path}/lines.txt",
        f"--output={tmp_path / 'demo'}",
        "--vocab_size=60",
    )
    assert result.returncode == 2
    message = result.stderr.splitlines()[-1]
    assert "too few documents of several sentences" in message
    assert list((tmp_path / "folder").iterdir()) == []


def test_missing_packages_are_named_before_anything_is_written(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tensorflow_hub", None)
    with pytest.raises(InputError, match="pip install tensorflow-hub"):
        run_demo(DemoConfig(output=tmp_path / "demo"))
    assert not (tmp_path / "demo").exists()
