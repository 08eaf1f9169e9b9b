"""Fixtures of pretraining: documents, records, small models and runs."""

import functools
import gzip
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data import create_data, record_batches, record_order, records
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.record_checks import (
    PARSE_ERRORS,
    parse_checked,
    verify_file,
)
from albert_tf.data.shards import Limits
from albert_tf.data.tfrecords import parse_example, serialize_examples
from albert_tf.data.tokenized_documents import (
    TokenizedDocuments,
    VocabularyTable,
)
from albert_tf.errors import InputError
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.train import pretrain
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary


def make_documents(num_documents, seed):
    """Returns documents of unique sentences that look like English."""
    rng = random.Random(seed)
    syllables = ["ba", "ro", "nti", "sel", "ka", "mur", "e", "lo", "pin", "dra"]
    lexicon = [
        "".join(rng.choices(syllables, k=n)) for n in (1, 2, 2, 3, 4) * 60
    ]
    weights = [1 / rank for rank in range(1, len(lexicon) + 1)]

    def sentence(number):
        words = rng.choices(lexicon, weights, k=rng.randint(4, 14))
        return f"{' '.join(words).capitalize()} {number}."

    number = iter(range(10**6))
    return [
        [sentence(next(number)) for _ in range(rng.randint(3, 30))]
        for _ in range(num_documents)
    ]


def to_lines(documents):
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


@pytest.fixture(scope="session")
def documents():
    return make_documents(120, seed=1)


@pytest.fixture(scope="session")
def small_tokenizer(documents, tmp_path_factory):
    """A SentencePiece model of 200 pieces, trained on `documents`."""
    prefix = tmp_path_factory.mktemp("vocabulary") / "tiny"
    sentences = [sentence for document in documents for sentence in document]
    path = train_vocabulary(sentences, prefix, VocabularyConfig(vocab_size=200))
    return AlbertTokenizer.from_file(path)


@pytest.fixture(scope="session")
def corpus(documents, tmp_path_factory):
    """Three files of `documents`: plain, gzip, and with a single document."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(to_lines(documents[:70]), "utf-8")
    with gzip.open(folder / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write(to_lines(documents[70:119]))
    (folder / "c.txt").write_text(to_lines(documents[119:]), "utf-8")
    return folder


@pytest.fixture(scope="session")
def create_at(corpus, small_tokenizer):
    """Returns `create_at(folder, limits, **settings) -> folder, manifest`."""

    def run(folder, limits=None, **settings):
        settings = {
            "input": f"{corpus}/*",
            "output": folder,
            "tokenizer": small_tokenizer,
            "max_seq_length": 64,
            "max_predictions_per_seq": 10,
            "masking": "static",
            "pack": False,
            "dupe_factor": 2,
            "num_shards": 3,
        } | settings
        if settings["masking"] == "dynamic":
            del settings["dupe_factor"]
        config = PretrainingDataConfig(**settings)
        manifest = create_data._create(config, limits or Limits())
        return pathlib.Path(config.output), manifest

    return run


@pytest.fixture
def create(create_at, tmp_path):
    """Returns `create(name, **settings) -> folder, manifest`."""
    return lambda name="data", **x: create_at(tmp_path / name, **x)


@pytest.fixture(scope="session")
def created(create_at, tmp_path_factory):
    """Like `create`, but cached for the session; the folder is read-only."""

    @functools.cache
    def make(**settings):
        return create_at(tmp_path_factory.mktemp("data") / "data", **settings)

    return make


@pytest.fixture
def copy_of_created(created, tmp_path):
    """Returns `copy(**settings)`: a writable copy of a folder of `created`."""
    return lambda **x: shutil.copytree(created(**x)[0], tmp_path / "data")


@pytest.fixture(scope="session")
def read_records():
    """Returns `read(*paths) -> feature name -> [records, ...]`."""

    def read(*paths):
        rows = []
        for path in map(str, paths):
            compression = "GZIP" if path.endswith(".gz") else ""
            dataset = tf.data.TFRecordDataset(path, compression)
            rows += map(parse_example, dataset.as_numpy_iterator())
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}

    return read


@pytest.fixture(scope="session")
def write_records():
    """Returns `write(path, *records) -> path`."""

    def write(path, *records):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
        return path

    return write


@pytest.fixture(scope="session")
def serialize():
    """Returns `serialize(features) -> record`."""

    def run(features):
        rows = {}
        for name, values in features.items():
            dtype = np.float32 if name.endswith("weights") else np.int64
            rows[name] = np.array([values], dtype)
        return serialize_examples(rows)[0]

    return run


@pytest.fixture(scope="session")
def parsed():
    """Returns `parsed(features)`: the features of each record, as lists."""

    def run(features):
        return [
            {name: row.tolist() for name, row in parse_example(record).items()}
            for record in serialize_examples(features)
        ]

    return run


@pytest.fixture
def assert_refused(tmp_path, write_records):
    """Returns `check(record, limits, message)`.

    It checks that a record is an error both when a file is verified and when a
    batch is parsed.
    """

    def check(record, limits, message, match="out of bounds"):
        path = str(write_records(tmp_path / "bad.tfrecord", record))
        with pytest.raises(InputError, match=f"record 1: .*{message}"):
            verify_file(path, limits)
        with pytest.raises(PARSE_ERRORS, match=match):
            parse_checked(tf.constant([record]), limits)

    return check


@pytest.fixture
def small_groups(monkeypatch):
    """Gives a small corpus several shuffle buffers and groups."""
    monkeypatch.setattr(record_order, "SHUFFLE_BUFFER", 150)
    for module in (record_order, record_batches, records):
        monkeypatch.setattr(module, "GROUP_RECORDS", 40)


@pytest.fixture(scope="session")
def table():
    """A vocabulary of 2000 ids, where those from 1000 on continue a word."""
    return VocabularyTable(
        pad_id=0,
        cls_id=2,
        sep_id=3,
        mask_id=4,
        word_starts=np.arange(2000) < 1000,
    )


@pytest.fixture(scope="session")
def tokenized():
    """Returns `tokenized(sentences, lengths)`: documents of random tokens.

    `sentences` are the numbers of sentences of the documents, and `lengths` the
    numbers of tokens of all sentences.
    """

    def make(sentences, lengths, seed=0):
        rng = np.random.default_rng(seed)
        return TokenizedDocuments(
            rng.integers(5, 1400, sum(lengths)).astype(np.int32),
            np.cumsum([0, *lengths]),
            np.cumsum([0, *sentences]),
        )

    return make


@pytest.fixture(scope="session")
def put_labels_back():
    """Returns `put_back(features)`: token ids before masking.

    `features` are those of records or of a batch.
    """

    def put_back(features):
        rows, slots = np.nonzero(features["masked_lm_weights"])
        is_batch = "input_word_ids" in features
        ids = features["input_word_ids" if is_batch else "input_ids"].copy()
        columns = features["masked_lm_positions"][rows, slots]
        ids[rows, columns] = features["masked_lm_ids"][rows, slots]
        return ids

    return put_back


@pytest.fixture(scope="session")
def segments_of(put_labels_back):
    """Returns `segments_of(features)`, which yields label, A and B of each row.

    `features` are those of records or of a batch. A and B are lists of ids
    before masking.
    """

    def segments(features):
        names = ("segment_ids", "next_sentence_labels")
        if "input_type_ids" in features:
            names = ("input_type_ids", "sentence_order_labels")
        types, labels = (features[name] for name in names)
        for row, ids in enumerate(put_labels_back(features)):
            length = features["input_mask"][row].sum()
            ids, is_b = ids[:length].tolist(), types[row] == 1
            start = int(np.argmax(is_b)) if is_b.any() else length
            assert is_b[start:length].all()
            assert not is_b[length:].any()
            assert (ids[0], ids[start - 1], ids[-1]) == (2, 3, 3)
            yield np.ravel(labels)[row], ids[1 : start - 1], ids[start:-1]

    return segments


@pytest.fixture(scope="session")
def unpacked():
    """Returns `unpacked(batch)`, which yields the sequences of each row.

    Each sequence is a dictionary of the features of a record.
    """
    names = {
        "input_ids": "input_word_ids",
        "input_mask": "input_mask",
        "segment_ids": "input_type_ids",
    }

    def sequence(row, number):
        columns = np.flatnonzero(row["sequence_ids"] == number + 1)
        label = row["sentence_order_labels"][number]
        start = row["sequence_starts"][number]
        weight = row["sentence_order_weights"][number]
        if not len(columns):
            assert start == label == weight == 0
            return None
        assert weight == row["input_type_ids"][columns].any()
        assert np.array_equal(columns, start + np.arange(len(columns)))
        positions = row["masked_lm_positions"]
        inside = (row["masked_lm_weights"] > 0) & np.isin(positions, columns)
        found = {name: row[x][columns] for name, x in names.items()} | {
            "masked_lm_positions": positions[inside] - start,
            "masked_lm_ids": row["masked_lm_ids"][inside],
            "masked_lm_weights": row["masked_lm_weights"][inside],
        }
        sizes = {
            name: row[names.get(name, name)].size - values.size
            for name, values in found.items()
        }
        padded = {x: np.pad(found[x], (0, size)) for x, size in sizes.items()}
        return padded | {"next_sentence_labels": np.array([label])}

    def run(batch):
        for index in range(len(batch["input_mask"])):
            row = {name: values[index] for name, values in batch.items()}
            is_used = row["sequence_ids"] > 0
            np.testing.assert_array_equal(is_used, row["input_mask"])
            numbers = range(row["sequence_starts"].size)
            found = [sequence(row, number) for number in numbers]
            yield [record for record in found if record]

    return run


@pytest.fixture(scope="session")
def tiny_model():
    """An architecture for `records`, with dropout and weights far from zero."""
    return AlbertConfig(
        vocab_size=600,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.1,
    )


@pytest.fixture(scope="session")
def small_model(tiny_model):
    """An architecture for the records of `create`."""
    return tiny_model.replace(vocab_size=200)


@pytest.fixture(scope="session")
def pretrain_config(tiny_model):
    """Returns `make(records, run, steps=12, **changes)` -> config."""

    def make(records, run, steps=12, **changes):
        return PretrainConfig(
            **{
                "input": str(records),
                "output": run,
                "model": tiny_model,
                "num_train_steps": steps,
                "log_steps": 4,
                "save_checkpoints_steps": 4,
                "eval_steps": 6,
                "seed": 3,
                "train_batch_size": 16,
                "optimizer": "adamw",
                "learning_rate": 2e-3,
                "num_warmup_steps": min(3, steps - 1),
                "max_eval_steps": 4,
                **changes,
            }
        )

    return make


@pytest.fixture(scope="session")
def pretrained(records, tmp_path_factory, pretrain_config):
    """A run of 12 steps; each of its 3 checkpoints has all held-out scores."""
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    every = {"eval_steps": 4, "max_eval_steps": 0, "best_metric": "sop_loss"}
    pretrain(pretrain_config(records, folder, **every))
    return folder


@pytest.fixture
def rewound(tmp_path):
    """Returns `rewound(run, step)`: a copy of a run, killed after a step."""

    def copy(run, step):
        folder = shutil.copytree(run, tmp_path / "run")
        for path in folder.glob("checkpoints/step-*.*"):
            if int(path.name.removeprefix("step-").split(".")[0]) > step:
                path.unlink()
        return folder

    return copy


@pytest.fixture
def copied_run(pretrained, rewound):
    """Returns `copy(steps)`: `pretrained` as if killed after `steps`."""
    return lambda steps=12: rewound(pretrained, steps)
