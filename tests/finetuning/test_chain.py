"""Each type of task by commands: from a file to a checked export."""

import json
import re
import shlex
from typing import NamedTuple

import pytest

TEXT = "text --text_column=text --label_column=label"
SPANS = "--max_query_length=16 --doc_stride=32"


class Chain(NamedTuple):
    """A task, and what its commands must give.

    Attributes:
      task: value of `--task`, and further flags of `finetune`.
      metric: the key metric.
      perfect: its best value.
      keys: what the record of a prediction has besides its `id`.
      tag: the task's name on a hub.
      kinds: kinds of exports.
    """

    task: str
    metric: str
    perfect: float
    keys: set[str]
    tag: str
    kinds: tuple[str, ...] = ("task",)


# By name of a file of `task_files`.
CHAINS = {
    "classes": Chain(
        f"{TEXT} --pair_column=pair",
        "accuracy",
        1.0,
        {"label", "probabilities"},
        "text-classification",
    ),
    "number": Chain(
        f"{TEXT} --regression", "pearson", 1.0, {"value"}, "text-classification"
    ),
    "choices": Chain(
        "dream --max_qa_length=24",
        "accuracy",
        1.0,
        {"label", "option", "probabilities"},
        "multiple-choice",
    ),
    "spans": Chain(
        f"squad1.1 {SPANS}",
        "f1",
        100.0,
        {"answer", "best"},
        "question-answering",
    ),
    "joint spans": Chain(
        f"squad2.0 {SPANS}",
        "f1",
        100.0,
        {"answer", "best", "null_score"},
        "question-answering",
    ),
    "words": Chain(
        "ner", "f1", 1.0, {"words", "labels"}, "token-classification"
    ),
    "pairs": Chain(
        "embedding --metrics=accuracy",
        "accuracy",
        1.0,
        {"similarity"},
        "sentence-similarity",
        ("task", "onnx", "litert"),
    ),
}
# They have the parts of others.
SLOW = ("number", "spans")


@pytest.fixture
def albert(run_albert, tmp_path):
    """Returns `run(command)`: the output and the errors of a command."""

    def run(command, status=0):
        result = run_albert(*shlex.split(command), cwd=tmp_path)
        assert result.returncode == status, result.stderr
        return result.stdout, result.stderr

    return run


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            x, marks=pytest.mark.slow if x in SLOW else pytest.mark.long
        )
        for x in CHAINS
    ],
)
def test_from_a_file_to_a_checked_export(
    albert, checkpoint, task_files, tmp_path, name
):
    """A model overfits 32 examples, whose labels follow no rule."""
    task, metric, perfect, keys, tag, kinds = CHAINS[name]
    # A number takes longer than a label.
    steps, rate = (200, 2e-3) if name == "number" else (100, 5e-3)
    dropout = "" if name == "pairs" else "--head_dropout=0"
    data = task_files[name]
    printed, errors = albert(
        f"finetune --task={task} --train={data} --dev={data} --output=run "
        f"--init_from={checkpoint} --max_seq_length=64 --train_batch_size=32 "
        f"--num_train_steps={steps} --learning_rate={rate} {dropout} "
        "--weight_decay=0 --steps_per_loop=50 --eval_steps=50 --log_steps=50"
    )
    assert f"{metric} {perfect:.4f}" in printed
    assert "wrote run in" in printed
    saved = json.loads((tmp_path / "run/model/task.json").read_text())
    assert f"task      {saved['name']}: {saved['task_type']}" in errors
    assert saved["scores"][metric] == pytest.approx(perfect, abs=5e-3)
    scores, _ = albert(f"evaluate --model=run --input={data} --json")
    assert json.loads(scores)[metric] == pytest.approx(saved["scores"][metric])
    lines, _ = albert(f"predict --model=run --input={data} --format=jsonl")
    records = list(map(json.loads, lines.splitlines()))
    assert len(records) == 32
    assert records[0].keys() == {"id", *keys}
    printed, errors = albert(
        f"predict --model=run --input={data} --output=out.tsv --score"
    )
    assert printed == ""
    assert re.search(rf"^{metric} +{perfect:.4f}$", errors, re.MULTILINE)
    table = (tmp_path / "out.tsv").read_text()
    assert table.startswith("id\t") == (name != "words")
    for run in ("--run=run", "--run=run/model", "--checkpoints=run"):
        _, errors = albert(f"evaluate {run} --input={data}", status=2)
        assert "a fine-tuned model, not a pretraining run" in errors
        assert "`albert evaluate --model=" in errors
    for kind in kinds:
        albert(f"export --kind={kind} --model=run --output={kind}")
        table, _ = albert(f"export --check={kind} --model=run")
        assert "source model" in table
        exported = json.loads((tmp_path / kind / "export.json").read_text())
        assert exported["task"] == saved
    card = (tmp_path / "task" / "README.md").read_text()
    assert f"pipeline_tag: {tag}\n" in card
