import itertools

import numpy as np
import pytest

from albert_tf.pretraining.chunks import cut_chunks
from albert_tf.pretraining.tokenized_documents import TokenizedDocuments

SEP = 3


@pytest.fixture(scope="module")
def documents(tokenized):
    """300 documents of 1 to 20 sentences of 1 to 60 tokens."""
    rng = np.random.default_rng(0)
    sentences = rng.integers(1, 21, 300)
    return tokenized(sentences, rng.integers(1, 61, sentences.sum()))


def sentence(*tokens):
    """Returns a document of a single sentence."""
    ends = np.array([0, 1])
    return TokenizedDocuments(
        np.array(tokens, np.int32), ends * len(tokens), ends
    )


def cut(documents, table, seed=0, **settings):
    return cut_chunks(
        documents,
        table,
        np.random.default_rng(seed),
        **{"max_tokens": 61} | settings,
    )


def test_chunks_have_every_token_in_order(documents, table, parsed):
    chunks, counts = cut(documents, table)
    features = parsed(chunks.features())
    text = list(itertools.chain(*(chunk["tokens"] for chunk in features)))
    dropped = len(documents.tokens) - len(text)
    assert dropped <= 2 * counts["dropped_chunks"] < 0.001 * len(text)
    assert counts["kept_tokens"] == len(text)
    assert counts["chunks"] == len(chunks) + counts["dropped_chunks"]
    numbers = [chunk["document"][0] for chunk in features]
    assert numbers == sorted(numbers)
    assert all(2 <= len(chunk["tokens"]) <= 61 for chunk in features)


def test_only_words_longer_than_a_chunk_are_cut(table, parsed):
    word = [10] + [1000] * 99
    document = sentence(11, 12, 13, *word, 14, 15, 16)
    chunks, _ = cut(document, table, max_tokens=40)
    assert [len(chunk["tokens"]) for chunk in parsed(chunks.features())] == [
        *(3, 40, 40),
        23,  # the rest of the word, and three more
    ]


def test_sentence_starts_are_offsets_in_the_chunk(documents, table, parsed):
    chunks, _ = cut(documents, table)
    starts = set(documents.sentence_starts.tolist())
    for chunk, start, end in zip(
        parsed(chunks.features()), chunks.starts, chunks.ends, strict=True
    ):
        assert chunk["sentence_starts"] == [
            offset
            for offset in range(1, end - start)
            if start + offset in starts
        ]


# With pairs, short chunks have two sentences if they fit.
@pytest.mark.parametrize(("pairs", "more"), [(False, 1.25), (True, 1.01)])
def test_a_share_of_chunks_is_short(documents, table, pairs, more):
    full, _ = cut(documents, table, pairs=pairs)
    short, _ = cut(documents, table, short_seq_prob=0.5, pairs=pairs)
    assert len(short) > more * len(full)
    again, _ = cut(documents, table, short_seq_prob=0.5, pairs=pairs)
    np.testing.assert_array_equal(short.starts, again.starts)


def test_chunks_of_pairs_have_whole_sentences(documents, table, parsed):
    """Punctuation at a cut would reveal the order of the segments."""
    ends = set(documents.sentence_starts.tolist())
    for short_seq_prob in (0.0, 0.5):
        chunks, _ = cut(
            documents, table, max_tokens=125, short_seq_prob=short_seq_prob
        )
        assert ends.issuperset(chunks.starts)
        assert ends.issuperset(chunks.ends)
        # Two sentences have at most 120 tokens, so only the last chunk of a
        # document may have a single one.
        features = parsed(chunks.features())
        for chunk, following in itertools.pairwise(features):
            if chunk["document"] == following["document"]:
                assert chunk["sentence_starts"]


def test_without_pairs_documents_are_joined(documents, table, parsed):
    chunks, counts = cut(documents, table, pairs=False)
    features = parsed(chunks.features())
    lengths = [len(chunk["tokens"]) for chunk in features]
    # All chunks but the last are only shortened to the start of a word.
    assert np.mean(lengths[:-1]) > 59
    text = list(itertools.chain(*(chunk["tokens"] for chunk in features)))
    assert text.count(SEP) == 299
    assert [i for i in text if i != SEP] == documents.tokens.tolist()
    assert counts["kept_tokens"] == len(documents.tokens)
    number_of_sentences = sum(len(c["sentence_starts"]) for c in features)
    assert number_of_sentences > 0.9 * documents.num_sentences
    for chunk in features:
        for start in chunk["sentence_starts"]:
            assert chunk["tokens"][start] != SEP


@pytest.mark.parametrize("tokens", [[7], [7, 7]])
def test_chunks_that_cannot_be_split_are_dropped(table, tokens):
    chunks, counts = cut(sentence(*tokens), table)
    assert len(chunks) == counts["kept_tokens"] == 0
    assert counts["dropped_chunks"] == 1
    assert len(cut(sentence(*tokens), table, pairs=False)[0]) == 1


@pytest.mark.parametrize("pairs", [True, False])
def test_text_without_tokens_has_no_chunks(table, tokenized, parsed, pairs):
    chunks, counts = cut(tokenized([], []), table, pairs=pairs)
    assert len(chunks) == len(parsed(chunks.features())) == 0
    assert counts["kept_tokens"] == 0
