"""What ends, starts and lengths of segments reveal of their order."""

import gzip
import itertools

import numpy as np
import pytest

from albert_tf.data.manifest import find_manifest
from albert_tf.data.order_shortcuts import (
    CLASSIFIER_LIMIT,
    RULE_LIMIT,
    describe_shortcuts,
    is_leak,
    measure_shortcuts,
)
from albert_tf.data.tfrecords import Ragged, frame_records, serialize_examples
from albert_tf.data.tokenized_documents import VocabularyTable
from albert_tf.errors import InputError

KINDS = {
    "dynamic": {"masking": "dynamic", "pack": False},
    "packed": {"masking": "dynamic", "pack": True},
    "static": {"masking": "static"},
}


@pytest.fixture(scope="module")
def sample(shared, tmp_path_factory):
    """Returns `sample(corpus)`: the first 2 MB of a corpus."""

    def write(corpus):
        source = shared("data", corpus, "train.txt.gz")
        path = tmp_path_factory.mktemp("text") / f"{corpus}.txt"
        with gzip.open(source) as file:
            path.write_bytes(file.read(2_000_000).rsplit(b"\n", 1)[0])
        return path

    return write


@pytest.fixture(scope="module")
def texts(sample):
    return {name: sample(name) for name in ("wikipedia-en", "novels-en")}


def cases():
    for corpus, length, kind, order in itertools.product(
        ("wikipedia-en", "novels-en"), (32, 64, 128, 512), KINDS, ("sop", "nsp")
    ):
        quick = (corpus, length, kind) == ("novels-en", 64, "packed")
        yield pytest.param(
            *(corpus, length, kind, order),
            marks=() if quick and order == "sop" else pytest.mark.long,
        )


@pytest.mark.parametrize(("source", "length", "kind", "order"), [*cases()])
def test_records_of_real_text_do_not_leak(
    texts, create, google_tokenizer, source, length, kind, order
):
    _, manifest = create(
        input=texts[source],
        tokenizer=google_tokenizer,
        max_seq_length=length,
        max_predictions_per_seq=3,
        sentence_order=order,
        **KINDS[kind],
    )
    found = manifest["splits"]["train"]["shortcuts"]
    assert found["pairs"] > 300
    assert found["punctuation_rule"] < RULE_LIMIT
    assert found["shallow_classifier"] < CLASSIFIER_LIMIT
    assert not is_leak(found)


@pytest.fixture(scope="module")
def halves(documents, small_tokenizer):
    """Ids of the sentences, and the start of a word inside each."""
    table = VocabularyTable.from_tokenizer(small_tokenizer)
    rng = np.random.default_rng(0)
    found = []
    for ids in small_tokenizer.encode(list(itertools.chain(*documents))):
        words = np.flatnonzero(table.word_starts[ids][1:]) + 1
        found.append((ids, rng.choice(words[:-2])))
    return found


def write(path, features):
    records = serialize_examples(features)
    path.write_bytes(b"".join(frame_records(records)))
    return [str(path)]


def ragged(rows):
    splits = np.cumsum([0, *map(len, rows)])
    return Ragged(np.concatenate(rows).astype(np.int64), splits)


def test_sentences_split_between_words_leak(halves, small_tokenizer, tmp_path):
    """As version 0.2.0 split chunks of one sentence at first."""
    rows = np.arange(len(halves))
    paths = write(
        tmp_path / "leak.tfrecord",
        {
            "tokens": ragged([ids for ids, _ in halves]),
            "sentence_starts": ragged([[middle] for _, middle in halves]),
            "document": Ragged(rows, np.append(rows, len(rows))),
        },
    )
    found = measure_shortcuts(paths, "sop", small_tokenizer)
    assert found["pairs"] == len(halves)
    assert found["punctuation_rule"] > 0.9
    assert found["shallow_classifier"] > 0.9
    assert is_leak(found)


def test_the_longer_segment_first_is_found(small_tokenizer, tmp_path):
    """Without a difference in punctuation."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(5, 30, 600)
    rows = np.arange(len(lengths))
    paths = write(
        tmp_path / "lengths.tfrecord",
        {
            "tokens": ragged([np.full(n + n // 2, 9) for n in lengths]),
            "sentence_starts": Ragged(lengths, np.append(rows, len(rows))),
            "document": Ragged(rows, np.append(rows, len(rows))),
        },
    )
    found = measure_shortcuts(paths, "sop", small_tokenizer)
    assert found["punctuation_rule"] == 0.5
    assert found["shallow_classifier"] > 0.9
    assert is_leak(found)


@pytest.mark.parametrize("kind", ["packed", "static"])
def test_create_data_warns(
    documents, small_tokenizer, tmp_path, run_albert, kind
):
    """Lines that are not sentences, as of text that is wrapped."""
    text = tmp_path / "wrapped.txt"
    pieces = (
        sentence.split(" ", 3) for sentence in itertools.chain(*documents)
    )
    text.write_text(
        "\n\n".join(f"{' '.join(x[:-1])}\n{x[-1]}" for x in pieces), "utf-8"
    )
    small_tokenizer.save_pretrained(tmp_path)
    flags = [f"--{name}={value}" for name, value in KINDS[kind].items()]
    result = run_albert(
        "create-data",
        f"--input={text}",
        f"--spm_model_file={tmp_path}/spiece.model",
        f"--output={tmp_path}/data",
        "--max_seq_length=64",
        "--num_shards=1",
        "--num_workers=1",
        *flags,
    )
    assert result.returncode == 0, result.stderr
    assert "train: the ends, starts and lengths" in result.stderr
    assert "their order without a model: punctuation rule " in result.stdout
    manifest = find_manifest(tmp_path / "data")
    assert is_leak(manifest["splits"]["train"]["shortcuts"])


def test_few_pairs_are_not_scored(small_tokenizer, tmp_path):
    paths = write(
        tmp_path / "few.tfrecord",
        {
            "tokens": ragged([[9, 10], [11, 12]]),
            "sentence_starts": ragged([[1], [1]]),
            "document": ragged([[0], [0]]),
        },
    )
    found = measure_shortcuts(paths, "nsp", small_tokenizer)
    assert found == {"pairs": 2}
    assert not is_leak(found)
    assert "only 2 pairs" in describe_shortcuts(found)


def test_chance_is_no_leak():
    scores = {"punctuation_rule": 0.56, "shallow_classifier": 0.5}
    assert not is_leak({"pairs": 100, **scores})
    assert is_leak({"pairs": 20_000, **scores})


@pytest.mark.parametrize("content", [b"\xff" * 40, b"abc", b""])
def test_damaged_files(small_tokenizer, tmp_path, content):
    path = tmp_path / "bad.tfrecord"
    path.write_bytes(content)
    if not content:
        assert measure_shortcuts([str(path)], "sop", small_tokenizer)
        return
    with pytest.raises(InputError, match=r"bad\.tfrecord: one cannot be read"):
        measure_shortcuts([str(path)], "sop", small_tokenizer)
