"""Windows of the graph, against those that models are trained on."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.examples.example import SpanExample
from albert_tf.data.features.span_settings import SpanSettings
from albert_tf.data.features.spans import span_windows
from albert_tf.export.task_graphs.span_windows import graph_windows
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer


@pytest.fixture(scope="module")
def letter():
    """A tokenizer that makes a piece of every "a" of "aaa"."""
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a")
    return WordPieceTokenizer("".join(f"{p}\n" for p in pieces).encode())


def check(letter, settings, questions, contexts):
    """Compares windows of questions and contexts of so many pieces."""
    expected = span_windows(
        [
            # Words of more than 100 letters have no pieces.
            SpanExample(
                id="",
                question="a " * question,
                context="a " * context,
                place="",
            )
            for question, context in zip(questions, contexts, strict=True)
        ],
        letter,
        settings,
        labelled=False,
    )
    expected = list(enumerate(expected))
    found = graph_windows(
        tf.minimum(tf.constant(questions, tf.int64), settings.max_query_length),
        tf.constant(contexts, tf.int64),
        settings,
    )
    assert found.question_of.numpy().tolist() == [
        question for question, windows in expected for _ in windows
    ]
    windows = [window for _, windows in expected for window in windows]
    assert found.pieces.to_list() == [(w.starts // 2).tolist() for w in windows]
    np.testing.assert_array_equal(
        found.max_context, np.concatenate([w.max_context for w in windows])
    )
    return windows


def test_lengths_of_all_kinds(letter):
    rng = np.random.default_rng(3)
    for _ in range(20):
        settings = SpanSettings(
            max_seq_length=int(rng.integers(12, 40)),
            doc_stride=int(rng.integers(1, 30)),
            max_query_length=int(rng.integers(1, 9)),
        )
        questions = rng.integers(0, 12, 8).tolist()
        contexts = rng.integers(0, 90, 8).tolist()
        check(letter, settings, questions, contexts)


def test_squads_lengths(letter):
    """Where windows of unlike length may have equal context."""
    windows = check(
        letter, SpanSettings(), [0, 1, 20, 64, 99], [999, 1, 380, 540, 2000]
    )
    assert len(windows) > 20


def test_no_questions():
    found = graph_windows(
        tf.zeros([0], tf.int64), tf.zeros([0], tf.int64), SpanSettings()
    )
    assert found.pieces.shape[0] == 0
    assert found.max_context.shape == found.question_of.shape == [0]
