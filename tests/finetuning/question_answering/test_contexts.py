import random

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.question_answering.contexts import Contexts
from albert_tf.finetuning.question_answering.features import TokenizedContext


def test_spans_are_stripped_like_str_strip(google_tokenizer, unusual_texts):
    generator = random.Random(5)
    alphabet = "".join(unusual_texts) + "a ,.9\n"
    texts = [*unusual_texts, "", " ", "the good movie"]
    texts += ["".join(generator.choices(alphabet, k=40)) for _ in range(60)]
    contexts = Contexts(tf.constant(texts))
    starts, ends, numbers, expected = [], [], [], []
    offset = 0
    for number, text in enumerate(texts):
        assert contexts.offsets[number] == offset
        tokens = TokenizedContext.from_text(text, google_tokenizer)
        for first in range(len(tokens.ids)):
            for last in range(first, min(first + 9, len(tokens.ids))):
                start, end = tokens.starts[first], tokens.ends[last]
                starts.append(offset + start)
                ends.append(offset + end)
                numbers.append(number)
                span = text[start:end]
                start += len(span) - len(span.lstrip())
                expected.append(
                    (
                        span.strip().encode(),
                        offset + int(start),
                        len(text[:start].encode()),
                    )
                )
        offset += len(text)
    starts, ends, numbers = (
        tf.constant(x, tf.int64) for x in (starts, ends, numbers)
    )
    starts, ends = contexts.strip(starts, ends)
    characters = starts - tf.gather(contexts.offsets, numbers)
    positions = contexts.to_bytes(numbers, characters)
    np.testing.assert_array_equal(
        contexts.to_characters(numbers, positions), characters
    )
    found = [
        x.numpy().tolist()
        for x in (contexts.substrings(starts, ends), starts, positions)
    ]
    assert list(zip(*found, strict=True)) == expected
    # Only white space, and reordered marks.
    assert sum(text == b"" for text, *_ in expected) > 3
