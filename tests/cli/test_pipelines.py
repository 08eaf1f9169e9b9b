import csv
import gzip
import json
import re

import numpy as np
import pytest

from albert_tf.finetuning import predictor
from albert_tf.finetuning.features import batched
from albert_tf.finetuning.model_folder import save_model
from albert_tf.finetuning.registry import make_task_type
from albert_tf.finetuning.text_classification.examples import (
    TextTask,
    text_task_config,
)
from albert_tf.interop.open_checkpoint import open_checkpoint
from albert_tf.pipelines.sentence_embedder import SentenceEmbedder


@pytest.fixture(scope="module")
def texts(folder):
    (folder / "texts.txt").write_text("A [MASK] is here.\nThe [MASK] [MASK].\n")
    (folder / "pairs.tsv").write_text("He slept.\tHe dreamed.\n\na\tb\n")
    return folder


def test_fill_mask(texts, albert_eagerly):
    output = albert_eagerly(
        texts, "fill-mask --model=start --input=texts.txt --top_k=2"
    )
    header, *rows = [line.split("\t") for line in output.splitlines()]
    assert header == ["text", "mask", "score", "token", "sequence"]
    assert [(x[0], x[1]) for x in rows] == [
        (text, mask)
        for text, mask in (("0", "0"), ("1", "0"), ("1", "1"))
        for _ in range(2)
    ]
    sequences = [x[4] for x in rows]
    assert [x.count("[MASK]") for x in sequences] == [0, 0, 1, 1, 1, 1]
    assert all(x.startswith("the [MASK] ") for x in sequences[4:])
    assert not albert_eagerly(
        texts,
        "fill-mask --model=start --top_k=2 --output=words.jsonl",
        stdin="A [MASK] is here.\n\n",
    )
    skipped = albert_eagerly(
        texts,
        "fill-mask --model=start --top_k=1",
        stdin="\nA [MASK] is here.\n\nThe [MASK].\n",
    )
    _, *others = skipped.splitlines()
    assert [x.split("\t")[0] for x in others] == ["1", "3"]
    line, blank = (texts / "words.jsonl").read_text().splitlines()
    assert blank == "[]"
    ((first, _),) = json.loads(line)
    assert f"{first['score']:.6f}" == rows[0][2]
    assert first["sequence"] == rows[0][4]


def test_embed(texts, albert_eagerly):
    albert_eagerly(
        texts, "embed --model=start --input=texts.txt --output=vectors.npy"
    )
    vectors = np.load(texts / "vectors.npy")
    assert (vectors.shape, vectors.dtype) == ((2, 64), np.float32)
    lines = albert_eagerly(
        texts, "embed --model=start", stdin=(texts / "texts.txt").read_text()
    )
    np.testing.assert_allclose(
        [json.loads(line) for line in lines.splitlines()], vectors, atol=2e-6
    )
    content = (texts / "texts.txt").read_bytes()
    (texts / "texts.txt.gz").write_bytes(gzip.compress(content))
    albert_eagerly(
        texts, "embed --model=start --input=texts.txt.gz --output=same.npy"
    )
    assert (texts / "same.npy").read_bytes() == (
        texts / "vectors.npy"
    ).read_bytes()
    same = albert_eagerly(texts, "embed --model=start --text=a --pair=a")
    assert same == "1.0\n"
    for name, separator in (("vectors.csv", ","), ("vectors.tsv", "\t")):
        albert_eagerly(
            texts, f"embed --model=start --input=texts.txt --output={name}"
        )
        rows = np.loadtxt(texts / name, delimiter=separator, skiprows=1)
        np.testing.assert_allclose(rows, vectors, atol=2e-6)


def test_an_array_that_cannot_be_written_is_not_computed(
    texts, status_eagerly, monkeypatch
):
    monkeypatch.setattr(
        SentenceEmbedder, "__call__", lambda *_: pytest.fail("computed")
    )
    command = "embed --model=start --input=texts.txt --output=missing/v.npy"
    status, _, errors = status_eagerly(texts, command, "")
    assert status == 2
    assert "missing/v.npy: cannot be written" in errors


def test_sentence_order(texts, albert_eagerly):
    output = albert_eagerly(
        texts, "sentence-order --model=start --input=pairs.tsv"
    )
    first, _, second = map(float, output.splitlines())
    albert_eagerly(
        texts, "sentence-order --model=start --input=pairs.tsv --output=o.csv"
    )
    header, *cells = (texts / "o.csv").read_text().splitlines()
    assert header == "swapped"
    assert [*map(float, cells)] == [*map(float, output.splitlines())]
    assert 0 < first < 1
    one = albert_eagerly(
        texts,
        "sentence-order --model=start --text='He slept.' --pair='He dreamed.'",
    )
    assert float(one) == pytest.approx(first, abs=2e-6)
    assert 0 < second < 1


@pytest.fixture(scope="module")
def classifiers(texts):
    """A folder with `single` and `pairs`, two untrained classifiers."""
    checkpoint = open_checkpoint(texts / "start")
    for name, pair in (("single", None), ("pairs", "second")):
        task = TextTask(
            name="text",
            labels=("negative, bad", 'positive "good"'),
            metrics=("accuracy",),
            text="text",
            pair=pair,
            label="label",
            id="id",
        )
        task_type = make_task_type(text_task_config(task), checkpoint.tokenizer)
        model = task_type.model_class.from_checkpoint(
            checkpoint, new_head=True, **task_type.model_arguments()
        )
        save_model(texts / name, model, task_type, task_type.task_config)
    return texts


# A blank line, one of white space, a tab, and no line feed at the end.
LINES = "one\n\n \u3000 \na\tb\nlast"
PAIRS = "one\ttwo\n\n\t\nthree\t\na\tb"
MASKED = "A [MASK].\n\n \u3000 \na\t[MASK]\nlast [MASK]"


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("predict --model=single --format=jsonl", LINES),
        ("predict --model=pairs --format=jsonl", PAIRS),
        ("embed --model=start", LINES),
        ("fill-mask --model=start --format=jsonl", MASKED),
        ("sentence-order --model=start", PAIRS),
    ],
)
def test_each_line_gives_a_result(classifiers, albert_eagerly, command, lines):
    output = albert_eagerly(classifiers, command, stdin=lines).splitlines()
    assert len(output) == 5
    if command.startswith("predict"):
        records = [json.loads(line) for line in output]
        assert [x["id"] for x in records] == ["0", "1", "2", "3", "4"]
        first, second = (x["probabilities"] for x in records[1:3])
        assert first == pytest.approx(second, abs=1e-6)
    elif not command.startswith("fill"):
        np.testing.assert_allclose(
            json.loads(output[1]), json.loads(output[2]), atol=1e-5
        )


@pytest.mark.parametrize(
    ("command", "first", "problem"),
    [
        ("predict --model=single", "one", b"\xff"),
        ("predict --model=pairs", "a\tb", b"one"),
        ("predict --model=pairs", "a\tb", b"a\tb\tc"),
        ("embed --model=start", "one", b"\xff"),
        ("fill-mask --model=start --top_k=1", "[MASK]", b"one"),
        ("fill-mask --model=start --top_k=1", "[MASK]", b"a " * 80 + b"[MASK]"),
        ("sentence-order --model=start", "a\tb", b"one"),
        ("sentence-order --model=start", "a\tb", b"a\tb\tc"),
    ],
)
def test_results_before_a_line_that_cannot_be_used(
    classifiers, status_eagerly, command, first, problem
):
    stdin = f"{first}\n".encode() + problem + f"\n{first}\n".encode()
    status, output, error = status_eagerly(classifiers, command, stdin)
    assert status == 2
    header = command.startswith(("predict", "fill"))
    assert len(output.splitlines()) == 1 + header
    assert len(error.splitlines()) == 1
    assert ": standard input:2: " in error
    command += " --output=none.txt"
    assert status_eagerly(classifiers, command, stdin)[:2] == (2, "")
    assert not (classifiers / "none.txt").exists()


@pytest.mark.parametrize("form", ["tsv", "csv"])
def test_several_chunks_have_one_header(
    classifiers, albert_eagerly, monkeypatch, form
):
    monkeypatch.setattr(predictor, "batched", lambda x, size: batched(x, 2))
    output = albert_eagerly(
        classifiers,
        f"predict --model=single --format={form}",
        stdin="a\nb\nc\nd\ne\n",
    )
    found = [re.split(r"\t|,", line)[0] for line in output.splitlines()]
    assert found == ["id", "0", "1", "2", "3", "4"]


def test_lines_that_cannot_be_used_are_skipped(classifiers, albert_eagerly):
    output = albert_eagerly(
        classifiers,
        "predict --model=pairs --on_bad_example=skip --format=csv",
        stdin=b"a\tb\none\n\xff\nc\td\n",
    )
    _, *rows = csv.reader(output.splitlines())
    assert [row[0] for row in rows] == ["0", "3"]


def test_the_name_of_the_output_is_its_format(classifiers, albert_eagerly):
    (classifiers / "in.csv").write_text(
        'id,text\n"a, ""b""\nc",one\nd,two\n', "utf-8"
    )
    command = "predict --model=single --input=in.csv"
    albert_eagerly(classifiers, f"{command} --output=o.csv")
    with open(classifiers / "o.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "label", "negative, bad", 'positive "good"']
    assert [row[0] for row in rows] == ['a, "b"\nc', "d"]
    assert {row[1] for row in rows} <= {*header[2:]}
    albert_eagerly(classifiers, f"{command} --output=o.tsv")
    lines = (classifiers / "o.tsv").read_text("utf-8").splitlines()
    assert [len(line.split("\t")) for line in lines] == [4, 4, 4]
    albert_eagerly(classifiers, f"{command} --output=o.tsv --format=jsonl")
    lines = (classifiers / "o.tsv").read_text("utf-8").splitlines()
    assert len([json.loads(line) for line in lines]) == 2


def test_tables_without_the_columns_of_training(
    classifiers, albert_eagerly, status_eagerly
):
    """Of a table that is predicted, only the texts are needed."""
    tables = {
        "no_ids.csv": "text\none\n\ntwo\n",
        "no_ids.jsonl": '{"text": "one"}\n{"text": ""}\n{"text": "two"}\n',
        "no_ids.tsv": "x\ttext\n1\tone\n1\t\n1\ttwo\n",
    }
    for name, text in tables.items():
        (classifiers / name).write_text(text)
        for flags in ("", " --id_column="):
            output = albert_eagerly(
                classifiers, f"predict --model=single --input={name}{flags}"
            )
            _, *rows = output.splitlines()
            assert [row[0] for row in rows] == ["0", "1", "2"]
        # One that is named must exist.
        status, _, error = status_eagerly(
            classifiers,
            f"predict --model=single --input={name} --id_column=k",
            "",
        )
        assert status == 2
        is_json = name.endswith(".jsonl")
        problem = "no key 'k'" if is_json else "column 'k' is not in the header"
        assert problem in error
    status, _, error = status_eagerly(
        classifiers,
        "predict --model=single --input=no_ids.csv --pair_column=text",
        "",
    )
    assert status == 2
    assert "--pair_column: the task text has one text, not two" in error
    (classifiers / "ids.csv").write_text("id,body,text\na,one,x\nb,two,y\n")
    for flags, ids in (
        ("--text_column=body", ["a", "b"]),
        ("--id_column=0", ["a", "b"]),
        ("--id_column=text", ["x", "y"]),
        ("--text_column=1 --id_column=2", ["text", "x", "y"]),
    ):
        output = albert_eagerly(
            classifiers, f"predict --model=single --input=ids.csv {flags}"
        )
        _, *rows = output.splitlines()
        assert [row.split("\t")[0] for row in rows] == ids
    (classifiers / "labels.csv").write_text('text,label\none,"negative, bad"\n')
    albert_eagerly(
        classifiers, "evaluate --model=single --input=labels.csv --json"
    )
