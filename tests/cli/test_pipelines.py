import json

import numpy as np
import pytest


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
    (line,) = (texts / "words.jsonl").read_text().splitlines()
    ((first, _),) = json.loads(line)
    assert f"{first['score']:.4f}" == rows[0][2]
    assert first["sequence"] == rows[0][4]


def test_embed(texts, albert_eagerly):
    albert_eagerly(
        texts, "embed --model=start --input=texts.txt --output=vectors.npy"
    )
    vectors = np.load(texts / "vectors.npy")
    assert (vectors.shape, vectors.dtype) == ((2, 32), np.float32)
    lines = albert_eagerly(
        texts,
        "embed --model=start",
        stdin=(texts / "texts.txt").read_text(),
    )
    np.testing.assert_allclose(
        [json.loads(line) for line in lines.splitlines()], vectors, atol=2e-6
    )
    same = albert_eagerly(texts, "embed --model=start --text=a --pair=a")
    assert same == "1.0000\n"


def test_sentence_order(texts, albert_eagerly):
    output = albert_eagerly(
        texts, "sentence-order --model=start --input=pairs.tsv"
    )
    first, second = map(float, output.split())
    assert 0 < first < 1
    one = albert_eagerly(
        texts,
        "sentence-order --model=start --text='He slept.' --pair='He dreamed.'",
    )
    assert float(one) == pytest.approx(first, abs=2e-6)
    assert 0 < second < 1
