"""Pieces and their text in the graph, against Python's."""

import random

import pytest
import tensorflow as tf

from albert_tf.data.features.span_context import SpanContext
from albert_tf.export.task_graphs.span_contexts import ContextReader
from albert_tf.text.preprocessor import AlbertPreprocessor
from albert_tf.text.tokenizer import AlbertTokenizer

# What is put in another order, composed, dropped, or white space to Python.
ODD = (
    "a\u0323\u0301 e\u0301\u0323o a\u0301\u0300\u0323\u0327b \u1ea5\u0323",
    "\ufeffthe movie\ufeff \ufb01lm \u00bd \u00ad so\u00adft\u00ad",
    " \x1c\x1d\x85 the\u3000\u2028movie \x00 not\x00 \u200b",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u5317\u4eac\u5927\u5b66 "
    "\ud55c\uad6d\u1112\u1161\u11ab",
)


@pytest.fixture(scope="module", params=["small", "30k-clean"])
def any_tokenizer(request, tokenizer):
    if request.param == "small":
        return tokenizer
    shared = request.getfixturevalue("shared")
    return AlbertTokenizer.from_file(
        shared("data", "sentencepiece-30k-clean", "30k-clean.model")
    )


def test_spans_are_stripped_as_python_strips_them(any_tokenizer, texts):
    generator = random.Random(5)
    alphabet = "".join(ODD) + "a ,.9\n"
    texts = [*texts, *ODD, ""]
    texts += ["".join(generator.choices(alphabet, k=40)) for _ in range(60)]
    reader = ContextReader(AlbertPreprocessor.from_tokenizer(any_tokenizer))
    found = tf.function(reader)(tf.constant(texts))
    assert found.borders[-1] == sum(len(text.encode()) for text in texts)

    firsts, lasts, expected = [], [], []
    piece_begin = text_begin = 0
    for text, ids in zip(texts, found.ids.to_list(), strict=True):
        context = SpanContext.from_text(text, any_tokenizer)
        assert ids == context.ids.tolist()
        for first in range(len(ids)):
            for last in range(first, min(first + 9, len(ids))):
                start, limit = context.starts[first], context.limits[last]
                span = text[start:limit]
                begin = start + len(span) - len(span.lstrip())
                firsts.append(piece_begin + first)
                lasts.append(piece_begin + last)
                expected.append(
                    (span.strip().encode(), text_begin + int(begin))
                )
        piece_begin += len(ids)
        text_begin += len(text)
    begins, ends = found.strip(
        tf.constant(firsts, "int64"), tf.constant(lasts, "int64")
    )
    spelled = found.spell(begins, ends).numpy().tolist()
    assert list(zip(spelled, begins.numpy().tolist(), strict=True)) == expected
    # White space alone, and marks that go backwards.
    assert sum(text == b"" for text, _ in expected) > 3


def test_no_text_at_all(tokenizer):
    reader = ContextReader(AlbertPreprocessor.from_tokenizer(tokenizer))
    for texts in ([], [""], ["", " "]):
        found = tf.function(reader)(tf.constant(texts, tf.string))
        assert found.ids.row_lengths().numpy().sum() == len(found.starts)
        assert found.borders[-1] == sum(map(len, texts))


def test_bytes_that_are_no_text(tokenizer):
    text = b"the \xff\xfe movie \xe4\xb8 was"
    reader = ContextReader(AlbertPreprocessor.from_tokenizer(tokenizer))
    found = tf.function(reader)(tf.constant([text]))
    begins, ends = found.strip(
        found.ids.row_starts(), found.ids.row_limits() - 1
    )
    first, limit = tf.gather(
        found.borders, tf.concat([begins, ends], 0)
    ).numpy()
    assert text[first:limit] == text
