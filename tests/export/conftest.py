import os
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.export.encoder import export_encoder
from albert_tf.export.preprocessor import export_preprocessor
from albert_tf.models.pretrainer import AlbertPretrainer
from albert_tf.text.preprocessor import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import train_vocabulary

CONSUMERS = pathlib.Path(__file__).parent / "consumers"
LONGEST = 40
VOCAB_SIZE = 90
TEXTS = [
    "The movie was not bad.",
    "A good film: 12, 1,000 and 99,999, seen 7 times, twice.",
    "",
    "   \t\u3000 ",
    # Accents, a ligature, dotted I, sharp s, and sigmas.
    "\u00c9tude na\u00efve \ufb01lm \u0130stanbul Stra\u00dfe",
    "\u039f\u0394\u039f\u03a3 \u03a3\u0391\u03a3 \u03a3",
    "e\u0301 a\u030a\u0323 \u1e9b\u0323 \u00bd \u2460 \uff21\uff22",
    "[CLS] [MASK] <pad> [SEP] <unk> \u2581the",
    "``good'' \u201cbad\u201d 'film'",
    "\U0001f600 \u4e2d\u6587 \u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d",
    "zero\u200bwidth\u00a0no-break \ufeff mark\u2028line",
    "nul\0tab\tend\n",
    "movie " * 60,
]


def run_consumer(
    name: str, *args, python=sys.executable, **environment: str
) -> None:
    """Runs a program of `consumers/` in a fresh process, by any interpreter."""
    result = subprocess.run(
        [python, CONSUMERS / name, *map(str, args)],
        env={**os.environ, **environment},
        # Elsewhere than in the repository: nothing of it can be imported.
        cwd=pathlib.Path(sys.executable).anchor,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        pytest.fail(f"{name} failed:\n{result.stderr[-4000:]}", pytrace=False)


@pytest.fixture(scope="session")
def consumer():
    return run_consumer


def expectations(model, **options):
    """Returns what a preprocessor with seq_length=20 must make of TEXTS."""
    tokenizer = AlbertTokenizer.from_file(model, **options)
    reversed_texts = TEXTS[::-1]

    def packed(length, pairs=None):
        arrays = tokenizer(
            TEXTS, pairs, max_length=length, padding="max_length"
        )
        return {name: array.tolist() for name, array in arrays.items()}

    preprocessor = AlbertPreprocessor(model, **options)
    with_offsets = preprocessor.tokenize_with_offsets(tf.constant(TEXTS))
    return {
        "texts": TEXTS,
        "seq_length": 20,
        "ids": tokenizer.encode(TEXTS),
        "with_offsets": [part.to_list() for part in with_offsets],
        "special": {
            "padding_id": 0,
            "start_of_sequence_id": 2,
            "end_of_segment_id": 3,
            "mask_id": 4,
            "vocab_size": tokenizer.vocab_size,
        },
        "default": packed(20),
        "7": packed(7),
        "pairs": packed(20, reversed_texts),
        "pairs_7": packed(7, reversed_texts),
    }


@pytest.fixture(scope="session")
def preprocessor_expectations():
    return expectations


@pytest.fixture(scope="session")
def tokenizer_model(tmp_path_factory):
    words = "a an the good bad movie film plot was really I have seen it not"
    rng = np.random.default_rng(0)
    lines = [
        f"{' '.join(rng.choice(words.split(), 8))} {n}, {n + 1},000."
        for n in range(300)
    ]
    prefix = tmp_path_factory.mktemp("a-private-place") / "spiece"
    return train_vocabulary(lines, prefix, vocab_size=VOCAB_SIZE)


@pytest.fixture(scope="session")
def config():
    return AlbertConfig(
        vocab_size=VOCAB_SIZE,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )


@pytest.fixture(scope="session")
def pretrainer(config):
    model = AlbertPretrainer(config)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        # Far from zeros and ones, so that each weight shows in the outputs.
        weight.assign(weight + rng.normal(0, 0.2, weight.shape))
    return model


@pytest.fixture(scope="session")
def inputs():
    rng = np.random.default_rng(2)
    mask = (np.arange(12) < np.array([12, 5, 1, 8])[:, None]).astype("int32")
    return {
        "input_word_ids": rng.integers(5, VOCAB_SIZE, mask.shape, "int32")
        * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(12) > 4).astype("int32") * mask,
    }


@pytest.fixture(scope="session")
def expected(pretrainer, inputs, tmp_path_factory):
    """A file of inputs and of what the source model makes of them."""
    positions = np.array([[1, 11, 4], [2, 0, 0], [0, 0, 0], [7, 3, 0]], "int32")
    encoder = pretrainer.encoder(inputs)
    heads = pretrainer({**inputs, "masked_lm_positions": positions})
    path = tmp_path_factory.mktemp("expected") / "expected.npz"
    np.savez(
        path,
        **inputs,
        masked_lm_positions=positions,
        sequence_output=encoder["sequence_output"],
        pooled_output=encoder["pooled_output"],
        encoder_outputs=np.stack(encoder["encoder_outputs"]),
        mlm_logits=heads["mlm_logits"],
        sop_logits=heads["sop_logits"],
        encoder_weights=len(pretrainer.encoder.weights),
    )
    return path


@pytest.fixture(scope="session")
def encoder_path(pretrainer, tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "encoder"
    export_encoder(pretrainer, path, tokenizer_model=tokenizer_model)
    return path


@pytest.fixture(scope="session")
def model_garden():
    """Folder with an export of Model Garden, and what it computes."""
    return pathlib.Path(__file__).parents[1] / "interop" / "data" / "stored"


@pytest.fixture(scope="session")
def model_garden_path(model_garden, tmp_path_factory):
    """An export of Model Garden: 40 pieces, rows of up to 16 tokens."""
    folder = tmp_path_factory.mktemp("model-garden")
    shutil.unpack_archive(model_garden / "tf_hub_2.tar.gz", folder)
    return folder / "tf_hub_2"


@pytest.fixture(scope="session")
def packed_path(pretrainer, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "packed"
    export_encoder(pretrainer, path, tokenizer_model=None, packed=True)
    return path


@pytest.fixture(scope="session")
def preprocessor_path(tokenizer_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "preprocessor"
    export_preprocessor(tokenizer_model, path, seq_length=20)
    return path


@pytest.fixture(autouse=True)
def _fixed_seed():
    keras.utils.set_random_seed(0)
