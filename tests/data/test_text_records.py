"""Records of dynamic masking, from `create-data` to batches."""

import itertools
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.analysis.records import analyze_records, total_length
from albert_tf.data import record_samples
from albert_tf.data.record_checks import TextLimits
from albert_tf.data.records import open_records, pretraining_dataset
from albert_tf.data.shards import Limits
from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

BATCH = 16

# Several blocks of a small corpus.
SMALL_BLOCKS = Limits(min_block_bytes=8000, max_block_bytes=8000)


SETTINGS = {
    "masking": "dynamic",
    "heldout_fraction": 0.2,
    "limits": SMALL_BLOCKS,
}


@pytest.fixture
def make(created, small_groups):
    """Returns `make(**settings) -> folder, manifest`, to be read only."""
    return lambda **settings: created(**SETTINGS | settings)


@pytest.fixture
def copy(copy_of_created):
    """Returns `copy()`: a writable copy of a folder of `make`."""
    return lambda: copy_of_created(**SETTINGS)


def features(**values):
    """Returns a serialized record."""
    example = tf.train.Example()
    for name, each in values.items():
        feature = example.features.feature[name]
        kind = "bytes_list" if isinstance(each[0], bytes) else "int64_list"
        getattr(feature, kind).value.extend(each)
    return example.SerializeToString()


def batches(folder, count=-1, **settings):
    dataset = pretraining_dataset(folder, global_batch_size=BATCH, **settings)
    return list(dataset.take(count).as_numpy_iterator())


def test_epochs_have_every_token_once_and_different_masks(
    make, documents, small_tokenizer, segments_of
):
    folder, manifest = make(heldout_fraction=0.0)
    counts = manifest["splits"]["train"]["counts"]
    assert manifest["splits"]["train"]["kept_fraction"] > 0.99
    total = counts["instances"]
    wanted = sorted(
        itertools.chain(
            *(ids for text in documents for ids in small_tokenizer.encode(text))
        )
    )
    found = batches(folder, count=2 * total // BATCH + 1)
    chunks = [
        b + a if label else a + b
        for batch in found
        for label, a, b in segments_of(batch)
    ]
    epochs = chunks[:total], chunks[total : 2 * total]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    tokens = sorted(itertools.chain(*epochs[0]))
    assert len(tokens) == counts["kept_tokens"]
    assert len(wanted) == len(tokens)
    rows = [
        {row.tobytes() for batch in part for row in batch["input_word_ids"]}
        for part in (found[: len(found) // 2], found[len(found) // 2 :])
    ]
    assert len(rows[0] & rows[1]) < 0.02 * total


@pytest.mark.parametrize(
    "sentence_order",
    ["sop", pytest.param("nsp", marks=pytest.mark.long), "none"],
)
def test_held_out_records_are_masked_as_in_training(
    make, read_records, sentence_order
):
    folder, manifest = make(sentence_order=sentence_order)
    split = manifest["splits"]["heldout"]
    written = read_records(*sorted(folder.glob("heldout-*")))
    assert len(written["input_ids"]) == split["counts"]["instances"]
    assert written["masked_lm_weights"].sum() == split["counts"]["predictions"]
    labels = written["next_sentence_labels"][:, 0]
    assert split["labels"]["1"] == labels.sum()
    is_pair = written["segment_ids"].any(axis=1)
    assert split["counts"]["pairs"] == is_pair.sum()
    assert sum(split["labels"].values()) == is_pair.sum()
    assert not labels[~is_pair].any()
    assert (labels.sum() > 0) == (sentence_order != "none")
    boundary = written["token_boundary"]
    assert boundary[:, 0].all()
    assert not (boundary & (1 - written["input_mask"])).any()
    # The expectation in training is equal; these are a hundred records.
    train = manifest["splits"]["train"]
    assert train["masking_rate"] == pytest.approx(
        split["masking_rate"], rel=0.03
    )
    found = batches(folder, split="heldout", training=False)
    ids, weights = (
        np.concatenate([batch[name] for batch in found])
        for name in ("input_word_ids", "sentence_order_weights")
    )
    np.testing.assert_array_equal(ids, written["input_ids"])
    np.testing.assert_array_equal(weights, is_pair)
    assert open_records(folder).baselines()["mlm_unigram_accuracy"] > 0


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Text in Russian, Hindi and Chinese letters, and its tokenizer."""
    rng = random.Random(1)
    syllables = ["ба ро сел кам дра лин".split(), "कि ताब लड़ पा नी का".split()]

    def sentence():
        words = [
            "".join(rng.choices(letters, k=rng.randint(2, 4)))
            for letters in rng.choices(syllables, k=8)
        ]
        return " ".join(
            [*words[:4], "".join(rng.sample("中文字書人", 4)), *words[4:]]
        )

    documents = [[sentence() for _ in range(9)] for _ in range(60)]
    folder = tmp_path_factory.mktemp("scripts")
    text = "\n\n".join("\n".join(document) for document in documents)
    (folder / "text.txt").write_text(text, "utf-8")
    config = VocabularyConfig(vocab_size=90, strip_accents=False)
    sentences = [x for document in documents for x in document]
    path = train_vocabulary(sentences, folder / "scripts", config)
    return folder / "text.txt", AlbertTokenizer.from_file(
        path, strip_accents=False
    )


def test_words_of_other_scripts_are_masked_whole(scripts, create):
    text, tokenizer = scripts

    def begins(token):
        piece = tokenizer.id_to_piece(token)
        return token < 5 or piece[0] in "▁中文字書人"

    folders, words = {}, {}
    for rule in ("spaces", "google"):
        folder, manifest = create(
            rule,
            **SETTINGS | {"input": text, "sentence_order": "none"},
            tokenizer=tokenizer,
            word_starts=rule,
        )
        folders[rule] = str(folder)
        records = manifest["settings"].get("word_starts")
        assert records == {"spaces": "spaces", "google": None}[rule]
        found = analyze_records(open_records(folder))
        words[rule] = total_length(found.span_words) / found.masking_rate
        for split in ("train", "heldout"):
            split_words = 0
            for batch in batches(folder, 9, split=split, training=False):
                masked = np.zeros_like(batch["input_mask"])
                ids = batch["input_word_ids"].copy()
                rows, slots = np.nonzero(batch["masked_lm_weights"])
                columns = batch["masked_lm_positions"][rows, slots]
                ids[rows, columns] = batch["masked_lm_ids"][rows, slots]
                masked[rows, columns] = 1
                inside = ~np.vectorize(begins)(ids[:, 2:])
                split_words += (
                    inside & (masked[:, 2:] != masked[:, 1:-1])
                ).sum()
            assert (split_words == 0) == (rule == "spaces")
    assert words["spaces"] < 0.8 * words["google"]
    with pytest.raises(InputError, match="made with word_starts=google, but"):
        open_records(list(folders.values()))


@pytest.mark.long
def test_passes_for_evaluation_are_equal(make):
    folder, manifest = make()
    first = batches(folder, training=False)
    again = batches(folder, training=False)
    total = manifest["splits"]["train"]["counts"]["instances"]
    assert sum(len(batch["input_mask"]) for batch in first) == total
    np.testing.assert_equal(again, first)


def test_text_records_need_their_manifest(make, tmp_path):
    folder, _ = make()
    path = next(folder.glob("pretraining-*"))
    shutil.copy(path, tmp_path / "alone.tfrecord")
    with pytest.raises(InputError, match="pass the folder"):
        open_records(tmp_path / "alone.tfrecord")


GARBAGE = b"\xff\xff\xff"  # so that the parser's message is not UTF-8 either
MALFORMED = {
    "empty": b"",
    "garbage": GARBAGE,
    "no_document": features(tokens=[20] * 9, sentence_starts=[3]),
    "two_documents": features(
        tokens=[20] * 9, sentence_starts=[3], document=[1, 2]
    ),
    "bytes": features(tokens=[b"a"], sentence_starts=[3], document=[1]),
}


@pytest.fixture
def ending_with(copy, edited, write_records):
    """Returns `ending_with(record)`: folder and size of its first file."""

    def make(record):
        folder = copy()
        with edited(folder / "manifest.json") as manifest:
            entry = manifest["splits"]["train"]["files"][0]
            path = folder / entry["name"]
            good = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
            write_records(path, *good, record)
            entry["records"] += 1
            entry["bytes"] = path.stat().st_size
        return folder, entry["records"]

    return make


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_records(assert_refused, ending_with, name):
    record = MALFORMED[name]
    assert_refused(record, TextLimits(61, 200), "one document", match="")
    with pytest.raises(InputError, match="one document"):
        open_records(ending_with(record)[0])


@pytest.mark.long
def test_a_malformed_record_in_a_batch(ending_with, monkeypatch):
    folder, size = ending_with(GARBAGE)
    monkeypatch.setattr(record_samples, "_SAMPLE_RECORDS", size - 1)
    opened = open_records(folder)
    with (
        pytest.raises(InputError, match=f"record {size}: .*one document"),
        opened.explained_errors(),
    ):
        list(opened.dataset(BATCH, training=False))
