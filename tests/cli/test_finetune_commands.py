"""`albert finetune`, `predict` and `evaluate` with a library's data set."""

import json
import random

import pytest

WORDS = "module class function value string object list name type".split()


@pytest.mark.peer
def test_a_data_set_of_a_library(albert, folder):
    datasets = pytest.importorskip("datasets")
    rng, rows = random.Random(0), []
    for _ in range(48):
        label = rng.choice(["bad", "good"])
        words = [*rng.choices(WORDS, k=rng.randint(3, 8)), label]
        rng.shuffle(words)
        rows.append((" ".join(words), label))
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
    command = (
        f"finetune --task=sst2 {named} --output=named --init_from=start "
        "--max_seq_length=32 --train_batch_size=16 --learning_rate=5e-3 "
        "--head_dropout=0 --num_train_steps=80 --log_steps=40"
    )
    result = albert(folder, command)
    assert result.returncode == 0, result.stderr
    assert "task      sst2: text_classification 0, 1" in result.stderr
    assert "48 examples to train on, 48 to score on" in result.stderr
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
    assert 'data.dev_splits=["validation"], not ["train"]' in result.stderr

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
