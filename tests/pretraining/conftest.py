import gzip
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.pretraining import create_data
from albert_tf.pretraining.config import PretrainConfig
from albert_tf.pretraining.data_config import PretrainingDataConfig
from albert_tf.pretraining.record_writer import parse_example
from albert_tf.pretraining.shards import Limits
from albert_tf.pretraining.train import pretrain
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary


def make_documents(num_documents, seed):
    """Makes documents of sentences that look like English and never repeat."""
    rng = random.Random(seed)
    parts = ["ba", "ro", "nti", "sel", "ka", "mur", "e", "lo", "pin", "dra"]
    lexicon = ["".join(rng.choices(parts, k=n)) for n in (1, 2, 2, 3, 4) * 60]
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
def pretrain_config(tiny_model):
    """Returns `make(records, run, steps=12, **changes)` of a quick run."""

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
                "num_warmup_steps": 3,
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
def copied_run(pretrained, tmp_path):
    """Returns `copy(steps)`: `pretrained`, killed after so many steps."""

    def copy(steps=12):
        folder = shutil.copytree(pretrained, tmp_path / "run")
        for step in range(steps + 1, 13):
            for path in folder.glob(f"checkpoints/step-{step:08d}.*"):
                path.unlink()
        return folder

    return copy


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
    """Three files with the documents: plain, gzip, and of a single document."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(to_lines(documents[:70]), "utf-8")
    with gzip.open(folder / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write(to_lines(documents[70:119]))
    (folder / "c.txt").write_text(to_lines(documents[119:]), "utf-8")
    return folder


@pytest.fixture
def create(corpus, small_tokenizer, tmp_path):
    """Returns `create(**settings) -> (folder, manifest)`, small and quick."""

    def run(name="data", limits=None, **settings):
        settings = {
            "input": f"{corpus}/*",
            "output": tmp_path / name,
            "tokenizer": small_tokenizer,
            "max_seq_length": 64,
            "max_predictions_per_seq": 10,
            "masking": "static",
            "dupe_factor": 2,
            "num_shards": 3,
        } | settings
        if settings["masking"] == "dynamic":
            del settings["dupe_factor"]
        config = PretrainingDataConfig(**settings)
        manifest = create_data._create(config, limits or Limits())
        return pathlib.Path(config.output), manifest

    return run


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
def put_labels_back():
    """Returns `put_back(features) -> input_ids` as before masking."""

    def put_back(features):
        rows, slots = np.nonzero(features["masked_lm_weights"])
        ids = features["input_ids"].copy()
        columns = features["masked_lm_positions"][rows, slots]
        ids[rows, columns] = features["masked_lm_ids"][rows, slots]
        return ids

    return put_back
