"""The task type of docs/task_types.md: one file, used by all commands."""

import json
import os
import pathlib
import random
import re
import shlex
import signal
import time
import urllib.request

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning import registry
from albert_tf.finetuning.registry import (
    known_task,
    load_task_module,
    make_task_type,
    register_task_type,
)
from albert_tf.finetuning.task_config import TaskConfig
from albert_tf.finetuning.text_classification.model import AlbertClassifier

# A word for each rating.
RATED = ("break", "import", "lambda", "raise", "while")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "task_types.md"


def documented_module():
    """Returns the file that the page shows."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return code


@pytest.fixture
def own_registry():
    """Lets a test register task types that others do not see."""
    known = registry._TASK_TYPES
    classes, files = dict(known), dict(known.files)
    yield
    known.clear()
    known.update(classes)
    known.files = files


@pytest.fixture
def module(own_registry, tmp_path):
    path = tmp_path / "ordinal_rating.py"
    path.write_text(documented_module())
    return path


@pytest.mark.long
def test_commands_train_predict_serve_and_export(
    checkpoint, run_albert, begin_albert, monkeypatch, tmp_path
):
    """Every command runs in its own process and finds the file."""

    def albert(command, status=0):
        result = run_albert(*shlex.split(command), cwd=tmp_path)
        assert result.returncode == status, result.stderr
        return result.stderr if status else result.stdout

    rng = random.Random(1)
    rows = ["text\tstars"]
    for _ in range(64):
        stars = rng.randint(1, 5)
        words = [RATED[stars - 1], *rng.choices(["is", "the"], k=3)]
        rows.append(f"{' '.join(words)}\t{stars}")
    (tmp_path / "stars.tsv").write_text("\n".join(rows) + "\n")
    module = tmp_path / "ordinal_rating.py"
    module.write_text(documented_module())

    printed = albert(
        "finetune --task_module=ordinal_rating.py --task=stars "
        f"--train=stars.tsv --dev=stars.tsv --init_from={checkpoint} "
        "--output=run --max_seq_length=16 --num_train_steps=160 "
        "--eval_steps=80 --learning_rate=5e-3 --head_dropout=0"
    )
    assert "closeness" in printed
    saved = json.loads((tmp_path / "run/model/task.json").read_text())
    assert saved["task_type"] == "ordinal_rating"
    assert saved["task_module"] == str(module)
    assert saved["scores"]["closeness"] > 0.9

    text = f"{RATED[4]} is the is"
    predict = f"predict --model=run --format=jsonl --text='{text}'"
    message = albert(predict, status=2)
    assert f"is defined by {module}; give this file as --task_module" in message
    own = "--task_module=ordinal_rating.py"
    predict += f" {own}"
    record = json.loads(albert(predict))
    assert set(record) == {"id", "label", "expected"}
    assert record["label"] == "5"
    scores = albert(f"evaluate --model=run --input=stars.tsv --json {own}")
    assert json.loads(scores)["closeness"] == saved["scores"]["closeness"]

    monkeypatch.chdir(tmp_path)
    log = tmp_path / "serve.log"
    server = begin_albert("serve", "--model=run", "--port=0", own, log=log)
    while not (address := re.search(r"http://[\d.:]+\d", log.read_text())):
        os.kill(server.process, 0)
        time.sleep(0.1)
    body = json.dumps({"inputs": text}).encode()
    with urllib.request.urlopen(f"{address[0]}/predict", body) as answer:
        assert json.load(answer)["outputs"][0]["label"] == "5"
    os.kill(server.process, signal.SIGKILL)
    server.end()

    for kind in ("task", "litert"):
        albert(f"export --kind={kind} --model=run --output={kind} {own}")
        findings = albert(f"export --check={kind} --model=run {own}")
        assert "FAIL" not in findings
        exported = json.loads((tmp_path / kind / "export.json").read_text())
        assert exported["task"]["task_type"] == "ordinal_rating"
        assert exported["task"]["task_module"] is None

    module.unlink()
    message = albert(predict, status=2)
    assert "task_module=ordinal_rating.py: no such file" in message


def test_modules_register_their_tasks(module):
    assert load_task_module(module) == str(module)
    assert load_task_module(module) == str(module)  # Not run twice.
    task = known_task("stars")
    assert task.task_module == str(module)
    task_type = make_task_type(task)
    assert type(task_type).__name__ == "OrdinalRating"
    assert task_type.example({"text": "x"}, "0", "").text == "x"


def test_a_model_that_loses_its_task_says_so(
    module, checkpoint, tmp_path, caplog
):
    load_task_module(module)
    model = AlbertClassifier.from_pretrained(checkpoint, num_labels=4)
    model.save_pretrained(tmp_path / "model")
    task = known_task("stars").to_json()
    (tmp_path / "model" / "task.json").write_text(task)
    assert not caplog.messages
    again = AlbertClassifier.from_pretrained(tmp_path / "model")
    again.save_pretrained(tmp_path / "copy")
    assert not (tmp_path / "copy" / "task.json").exists()
    [message] = caplog.messages
    assert "the type 'ordinal_rating'; copy task.json from" in message


def test_the_module_of_a_saved_task_is_not_executed(module):
    load_task_module(module)
    text = known_task("stars").to_json()
    registry._TASK_TYPES.pop("ordinal_rating")
    registry._TASK_TYPES.files.clear()
    module.write_text("raise SystemExit('executed')")
    task = TaskConfig.from_json(text, "task.json")
    with pytest.raises(InputError, match=r"ordinal_rating.py; give this file"):
        make_task_type(task)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("x = 1", "registers no task type"),
        ("import absent_module", r"cannot be imported \(ModuleNotFoundError"),
        ("raise SystemExit('text')", "ends the program when it is imported"),
        ("print('x')\nimport os; os._exit(3)", "ends the program when it is"),
    ],
)
def test_invalid_modules(content, message, own_registry, tmp_path, capfd):
    path = tmp_path / "types.of.mine.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=message):
        load_task_module(path)
    assert capfd.readouterr() == ("", "")
    assert os._exit.__module__ == "posix"


def test_what_a_module_prints_is_no_output(own_registry, tmp_path, capfd):
    path = tmp_path / "printing.py"
    path.write_text(
        "from albert_tf.finetuning.registry import register_task_type\n"
        "from albert_tf.finetuning.text_classification.task import Regression\n"
        "print('hello')\n"
        "register_task_type(type('Mine', (Regression,), {'name': 'mine'}))\n"
    )
    load_task_module(path)
    assert capfd.readouterr() == ("", "hello\n")


def test_circular_links_are_refused(own_registry, tmp_path):
    path = tmp_path / "types.py"
    path.symlink_to("types.py")
    with pytest.raises(InputError, match="no such file"):
        load_task_module(path)


def test_names_are_unique(own_registry):
    known = registry._TASK_TYPES["regression"]
    assert register_task_type(known) is known
    with pytest.raises(
        InputError, match="'regression' is already defined by .*task"
    ):
        register_task_type(type("Other", (known,), {}))
    with pytest.raises(InputError, match="task='absent' must be one of cola"):
        known_task("absent")
