"""Text, vocabulary, records and pairs of the studies."""

import collections
import csv
import json

import pytest

import albert_tf
from albert_tf.ablation.config import AblationConfig
from albert_tf.ablation.data import (
    StudyData,
    choose_vocab_size,
    heldout_fraction,
)
from albert_tf.data.documents import uniform_hash
from albert_tf.data.records import open_records


@pytest.fixture
def own_text(tmp_path):
    """Returns `make(documents)`: settings for documents of five sentences."""

    def make(documents, **settings):
        path = tmp_path / "own.txt"
        lines = (
            "".join(f"Story {n} has a line {x}.\n" for x in range(5))
            for n in range(documents)
        )
        path.write_text("\n".join(lines))
        return AblationConfig(
            output=tmp_path / "studies",
            input=str(path),
            **{"scale": "smoke"} | settings,
        )

    return make


@pytest.mark.parametrize(
    ("documents", "heldout"), [(2, 1), (18, 3), (60, 10), (1000, 50)]
)
def test_heldout_share_is_exact(documents, heldout):
    texts = [[f"text {n}"] for n in range(documents)]
    fraction = heldout_fraction(texts)
    hashes = [uniform_hash(x.encode(), 0) for (x,) in texts]
    assert sum(x < fraction for x in hashes) == heldout
    # Copies of a document do not change what is held out.
    assert heldout_fraction(texts * 2) == fraction


def test_small_text(own_text, capfd):
    config = choose_vocab_size(own_text(18))
    config.output.mkdir()
    data = StudyData(config, config.output)
    data.prepare(["sop"])
    records = open_records(str(data.records("sop")), "heldout")
    assert records.manifest["splits"]["heldout"]["counts"]["documents"] == 3
    assert records.manifest["splits"]["train"]["counts"]["documents"] == 15
    assert 0 < data.plateau_accuracy("sop") <= 1.1


def test_a_single_document_cannot_be_split(own_text):
    config = choose_vocab_size(own_text(1))
    config.output.mkdir()
    with pytest.raises(albert_tf.InputError, match="--text_format"):
        StudyData(config, config.output).prepare(["sop"])


def test_long_documents_are_split(own_text):
    config = own_text(1)
    path = config.text_files()[0]
    path.write_text("".join(f"This is line {x}.\n" for x in range(150)))
    config = choose_vocab_size(config)
    config.output.mkdir()
    data = StudyData(config, config.output)
    data.prepare([])
    parts = data.text.read_text().strip().split("\n\n")
    assert [len(part.splitlines()) for part in parts] == [60, 60, 30]


def test_vocabulary_is_chosen_by_the_text(own_text):
    # "story", "has", "a", "line", and the numbers of the lines; 18 stories
    # have their own numbers five times.
    small = choose_vocab_size(own_text(18)).scale_settings.vocab_size
    large = choose_vocab_size(own_text(400)).scale_settings.vocab_size
    characters = {*"story has a line.0123456789"}
    assert small == 14 + len(characters) + 4 + 18
    assert large == 14 + len(characters) + 4 + 400
    huge = choose_vocab_size(own_text(5000, scale="minutes")).scale_settings
    assert huge.vocab_size == huge.max_vocab_size == 4000
    assert choose_vocab_size(own_text(18, vocab_size=99)).vocab_size == 99
    default = AblationConfig(output="x", scale="smoke")
    assert choose_vocab_size(default) == default


def test_text_is_read_as_create_data_reads_it():
    assert (
        AblationConfig(output="x").text_format
        == albert_tf.PretrainingDataConfig.text_format
    )


def test_chronicles_have_a_record_each(tmp_path):
    config = AblationConfig(output=tmp_path, scale="minutes")
    data = StudyData(config, tmp_path)
    data.prepare(["sop"])
    manifest = json.loads((data.records("sop") / "manifest.json").read_text())
    counts = manifest["splits"]["train"]["counts"]
    assert counts["instances"] == counts["documents"]
    # Each word is one piece.
    assert counts["tokens"] == 44 * counts["documents"]


def test_pair_tables(tmp_path):
    config = AblationConfig(output=tmp_path, scale="smoke")
    tables = StudyData(config, tmp_path).pair_tables()
    sizes = [config.scale_settings.train_pairs, config.scale_settings.dev_pairs]
    texts = []
    for table, size in zip(tables, sizes, strict=True):
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == size
        assert {*collections.Counter(x["label"] for x in rows)} == {
            "continues",
            "no",
        }
        texts.append({(x["text"], x["pair"]) for x in rows})
    assert not texts[0] & texts[1]
