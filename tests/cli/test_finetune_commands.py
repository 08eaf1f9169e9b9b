"""`albert finetune`, `predict` and `evaluate` as users run them."""

import json
import random

import pytest

WORDS = "module class function value string object list name type".split()


@pytest.fixture(scope="module")
def folder(folder):
    """A folder with a small model and a table of two classes."""
    rng = random.Random(0)
    rows = []
    for _ in range(48):
        label = rng.choice(["bad", "good"])
        words = [*rng.choices(WORDS, k=rng.randint(3, 8)), label]
        rng.shuffle(words)
        rows.append(f"{' '.join(words)},{label}")
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return folder


FINETUNE = (
    "finetune --task=text --train=train.csv --dev=train.csv --init_from=start "
    "--max_seq_length=32 --train_batch_size=16 --learning_rate=5e-3 "
    "--head_dropout=0 --num_train_steps=80 --log_steps=40 "
)


# The same, but for its data.
NAMED = FINETUNE.replace("--task=text", "--task=sst2").replace(
    "--train=train.csv --dev=train.csv", ""
)


@pytest.mark.long
def test_from_a_table_to_predictions(albert, folder):
    columns = "--text_column=0 --label_column=1 --header"
    result = albert(
        folder, f"{FINETUNE} {columns} --output=run --eval_steps=40"
    )
    assert result.returncode == 0, result.stderr
    assert "accuracy 1.0000" in result.stdout
    assert "wrote run in" in result.stdout
    assert "task      text: text_classification bad, good" in result.stderr

    lines = "a good value\nthe list is bad\n"
    result = albert(folder, "predict --model=run --format=jsonl", lines)
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["label"] for record in records] == ["good", "bad"]
    assert set(records[0]["probabilities"]) == {"bad", "good"}

    for command in ("--run=run", "--run=run/model", "--checkpoints=run"):
        result = albert(folder, f"evaluate {command} --input=train.csv")
        assert result.returncode == 2
        assert "a fine-tuned model, not a pretraining run" in result.stderr
        assert "`albert evaluate --model=" in result.stderr

    result = albert(
        folder, "predict --model=run --input=train.csv --output=out.tsv --score"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert "accuracy" in result.stderr
    table = (folder / "out.tsv").read_text().splitlines()
    assert table[0] == "id\tlabel\tbad\tgood"
    assert len(table) == 49

    result = albert(folder, "evaluate --model=run --input=train.csv --json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["accuracy"] == 1.0


@pytest.mark.peer
def test_a_data_set_of_a_library(albert, folder):
    datasets = pytest.importorskip("datasets")
    rows = [
        line.split(",")
        for line in (folder / "train.csv").read_text().splitlines()[1:]
    ]
    known = datasets.Dataset.from_dict(
        {
            "sentence": [text for text, _ in rows],
            "label": [int(label == "good") for _, label in rows],
            "idx": list(range(len(rows))),
        }
    ).cast_column("label", datasets.ClassLabel(names=["negative", "positive"]))
    hidden = known.map(lambda row: {"label": -1})
    splits = {"train": known, "validation": known, "test": hidden}
    datasets.DatasetDict(splits).save_to_disk(str(folder / "glue" / "sst2"))

    named = "--from=huggingface --data=glue"
    command = f"{NAMED} {named} --output=named"
    result = albert(folder, command)
    assert result.returncode == 0, result.stderr
    assert "task      sst2: text_classification 0, 1" in result.stderr
    assert "48 to train on, 48 to score on" in result.stderr
    # Given again it is the same run.
    result = albert(folder, command)
    assert "which holds this run already" in result.stderr
    # Another split is other data, even with the same examples.
    result = albert(folder, f"{command} --train=validation")
    assert result.returncode == 2
    assert "data" in result.stderr
    # So is another split to be scored on.
    result = albert(folder, f"{command} --dev=train")
    assert result.returncode == 2
    assert '"dev_splits": ["train"]' in result.stderr

    result = albert(folder, f"evaluate --model=named {named} --json")
    assert json.loads(result.stdout)["accuracy"] == 1.0
    result = albert(folder, f"evaluate --model=named {named} --split=test")
    assert result.returncode == 2
    assert "split test: its labels are not published" in result.stderr
    result = albert(
        folder, f"predict --model=named {named} --glue_submission=site"
    )
    assert result.returncode == 0, result.stderr
    lines = (folder / "site" / "SST-2.tsv").read_text().splitlines()
    assert lines[0].split() == ["index", "prediction"]
    labels = [str(int(label == "good")) for _, label in rows]
    assert [line.split("\t")[1] for line in lines[1:]] == labels
