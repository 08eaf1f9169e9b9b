"""`albert finetune`, `predict` and `evaluate` as users run them."""

import json
import random
import subprocess
import sys

import keras
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.demo.python_docs import python_documents
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary

WORDS = "module class function value string object list name type".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small model and a table of two classes."""
    folder = tmp_path_factory.mktemp("user")
    lines = [
        line for _, paragraphs in python_documents([]) for line in paragraphs
    ][:2000]
    model = train_vocabulary(lines, folder / "spiece", vocab_size=400)
    config = AlbertConfig(
        vocab_size=400,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.1,
    )
    keras.utils.set_random_seed(0)
    tokenizer = AlbertTokenizer.from_file(model)
    AlbertPretrainer(config).save_pretrained(folder / "start", tokenizer)
    rng = random.Random(0)
    rows = []
    for _ in range(48):
        label = rng.choice(["bad", "good"])
        words = [*rng.choices(WORDS, k=rng.randint(3, 8)), label]
        rng.shuffle(words)
        rows.append(f"{' '.join(words)},{label}")
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (folder / "broken.csv").write_text("text,label\na,good\nb,bad,worse\n")
    return folder


def albert(folder, command, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "albert_tf", *command.split()],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
    )


FINETUNE = (
    "finetune --task=text --train=train.csv --dev=train.csv --init_from=start "
    "--max_seq_length=32 --train_batch_size=16 --learning_rate=5e-3 "
    "--head_dropout=0 --num_train_steps=80 --log_steps=40 "
)


def test_from_a_table_to_predictions(folder):
    result = albert(folder, f"{FINETUNE} --output=run --eval_steps=40")
    assert result.returncode == 0, result.stderr
    assert "accuracy 1.0000" in result.stdout
    assert "wrote run in" in result.stdout
    assert "task      text: classes bad, good" in result.stderr

    lines = "a good value\nthe list is bad\n"
    result = albert(folder, "predict --model=run --format=jsonl", lines)
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["label"] for record in records] == ["good", "bad"]
    assert set(records[0]["probabilities"]) == {"bad", "good"}

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


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{FINETUNE} --output=new --train=broken.csv", "broken.csv:3: 3 col"),
        (f"{FINETUNE} --output=new --train=none.csv", "none.csv"),
        (f"{FINETUNE} --output=new --data=.", "either --data or --train"),
        (f"{FINETUNE} --output=new --doc_stride=3", "has no such setting"),
        (f"{FINETUNE} --output=new --num_train_epochs=3", "give either --num"),
        (f"{FINETUNE} --output=new --task=sst2", "train.csv"),
        (
            f"{FINETUNE} --output=new --task=sst2 --classes=a,b",
            "--classes goes with --task=text",
        ),
        (f"{FINETUNE} --output=new --max_seq_length=64", "takes 32 tokens"),
        ("predict --model=start --text=a", "no fine-tuned model"),
        ("predict --model=start --text=a --input=b", "either --input or"),
        ("predict --model=start --pair=a", "--pair goes with --text"),
        ("evaluate --model=start --input=train.csv", "no fine-tuned model"),
        ("evaluate --input=train.csv", "one of --run, --checkpoints and"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(folder, command, message):
    result = albert(folder, command)
    assert result.returncode == 2, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert message in result.stderr
    assert not (folder / "new").exists()
