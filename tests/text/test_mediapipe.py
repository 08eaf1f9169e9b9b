"""Ids that MediaPipe Tasks makes of strings, for docs/runtimes.md."""

import gzip
import random

import numpy as np
import pytest
import tensorflow as tf
from architectures import SMALL

from albert_tf.exporting.config import ExportConfig
from albert_tf.exporting.runtimes import export_for_runtime
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.runtimes.ids_program import IdsProgram
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary

pytestmark = pytest.mark.peer
LENGTH = 512


@pytest.fixture(scope="module")
def different(tmp_path_factory):
    """Returns `different(tokenizer, texts)`: texts with their two rows."""
    tasks = pytest.importorskip(
        "mediapipe.tasks.python.text", reason="MediaPipe is not installed"
    )
    config = SMALL.replace(max_position_embeddings=512)
    program = IdsProgram(
        model=AlbertEncoder(config),
        # A model whose embeddings are the ids.
        forward=lambda _, inputs: {
            "ids": tf.cast(inputs["input_word_ids"], tf.float32)
        },
        seq_length=LENGTH,
    )

    def different(tokenizer, texts):
        folder = tmp_path_factory.mktemp("ids") / "e"
        config = ExportConfig(model="m", output=folder, kind="litert")
        export_for_runtime(program, config, tokenizer=tokenizer)
        rows = tokenizer(texts, max_length=LENGTH, padding="max_length")
        path = str(folder / "model.tflite")
        with tasks.TextEmbedder.create_from_model_path(path) as embedder:
            found = [embedder.embed(x).embeddings[0].embedding for x in texts]
        return [
            (text, row.tolist(), other.astype(int).tolist())
            for text, row, other in zip(
                texts, rows["input_word_ids"], found, strict=True
            )
            if not np.array_equal(row, other)
        ]

    return different


@pytest.fixture(scope="module")
def real_texts(shared):
    """400 texts from each of five sources."""

    def lines(*parts):
        with gzip.open(shared("data", *parts), "rt", encoding="utf-8") as file:
            return [x.strip() for x in file if x.strip()]

    sources = [
        lines("wikipedia-en", "train.txt.gz"),
        lines("gutenberg-en", "train1.txt.gz"),
        lines("us-gov-web", "train.txt.gz"),
        [x.split("\t")[-1] for x in lines("imdb", "test.tsv.gz")],
        [x.split("\t")[1] for x in lines("qnli", "dev.tsv.gz")],
    ]
    generator = random.Random(0)
    return [x for source in sources for x in generator.sample(source, 400)]


def is_tie(row, other):
    """Returns whether pieces are the same in another order (aa|a and a|aa).

    SentencePiece 0.2.1 and the later one in MediaPipe choose differently.
    """
    return sorted(row) == sorted(other)


def test_real_texts(different, clean_model, real_texts):
    tokenizer = AlbertTokenizer.from_file(clean_model)
    found = different(tokenizer, real_texts)
    assert len(real_texts) == 2000
    assert len(found) <= 5
    for text, row, other in found:
        assert is_tie(row, other), text


def test_hostile_texts(
    different, clean_model, odd_texts, quoted_texts, special_texts
):
    generator = random.Random(0)
    texts = [
        *generator.sample(odd_texts, 70),
        *generator.sample(quoted_texts, 65),
        *generator.sample(special_texts, 65),
    ]
    tokenizer = AlbertTokenizer.from_file(clean_model)
    found = different(tokenizer, texts)
    assert len(found) <= 7
    for text, row, other in found:
        # C's strings end at NUL.
        assert "\0" in text or is_tie(row, other), ascii(text)


def test_wordpiece(different, real_texts, tmp_path):
    """Accents stay, and only ASCII is lower-cased, so words are unknown."""
    path = train_vocabulary(
        real_texts[::5],
        tmp_path / "vocab",
        VocabularyConfig(vocab_size=3000, model_type="wordpiece"),
    )
    tokenizer = AlbertTokenizer.from_file(path)
    found = different(tokenizer, real_texts)
    assert len(found) <= 63
    assert not any(text.isascii() for text, _, _ in found)
