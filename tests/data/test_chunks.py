import itertools

import numpy as np
import pytest

from albert_tf.data.chunk_packing import pack_chunks
from albert_tf.data.chunks import Chunks, cut_chunks, cut_joined
from albert_tf.data.tokenized_documents import TokenizedDocuments

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


def cut(documents, table, seed=0, pairs=True, **settings):
    function = cut_chunks if pairs else cut_joined
    return function(
        documents,
        table,
        np.random.default_rng(seed),
        **{"max_tokens": 61} | settings,
    )


def test_chunks_have_every_token_in_order(documents, table, parsed):
    chunks = cut(documents, table)
    features = parsed(chunks.features())
    text = list(itertools.chain(*(chunk["tokens"] for chunk in features)))
    assert text == documents.tokens.tolist()
    numbers = [chunk["document"][0] for chunk in features]
    assert numbers == sorted(numbers)
    assert all(1 <= len(chunk["tokens"]) <= 61 for chunk in features)


@pytest.mark.parametrize("seed", [0, 1])  # from the start, from the end
def test_only_words_longer_than_a_chunk_are_cut(table, parsed, seed):
    word = [10] + [1000] * 99
    document = sentence(11, 12, 13, *word, 14, 15, 16)
    chunks = cut(document, table, seed, max_tokens=40)
    assert [len(chunk["tokens"]) for chunk in parsed(chunks.features())] == [
        *(3, 40, 40),
        23,  # the rest of the word, and three more
    ]


@pytest.mark.parametrize("max_tokens", [25, 61])
@pytest.mark.parametrize("packed", [False, True])
def test_boundaries_are_the_inner_ones_of_whole_sentences(
    documents, table, parsed, max_tokens, packed
):
    chunks = cut(documents, table, max_tokens=max_tokens)
    if packed:
        rows = pack_chunks(
            documents,
            table,
            np.random.default_rng(0),
            max_seq_length=max_tokens + 3,
            max_sequences=4,
        )
        chunks = rows.chunks
    starts = set(documents.sentence_starts.tolist())
    pieces = 0
    for chunk, start, end in zip(
        parsed(chunks.features()), chunks.starts, chunks.ends, strict=True
    ):
        inner = [x for x in range(1, end - start) if start + x in starts]
        assert chunk["sentence_starts"] == inner
        if not {start, end} <= starts:
            assert not inner  # a piece is a chunk of its own
            pieces += 1
    assert (pieces > 0) == (max_tokens == 25)


def test_chunks_of_older_data_with_a_piece_have_no_boundary(table, tokenized):
    """Half a sentence would show which segment came first."""
    documents = tokenized([3], [10, 10, 10])
    for start, end, found in ((0, 30, [10, 20]), (5, 30, []), (0, 25, [])):
        chunks = Chunks(
            documents.tokens,
            *map(np.array, ([start], [end], [0])),
            documents.sentence_starts,
        )
        assert chunks.boundaries.values.tolist() == found


def test_identical_halves_have_no_boundary(table):
    tokens = np.array([7, 8, 7, 8, 7, 8, 9], np.int32)
    starts = np.array([0, 2, 4, 7])
    chunks = Chunks(tokens, *map(np.array, ([0, 4], [4, 7], [0, 0])), starts)
    assert chunks.boundaries.values.tolist() == []
    whole = Chunks(tokens, *map(np.array, ([0], [7], [0])), starts)
    assert whole.boundaries.values.tolist() == [2, 4]


# With pairs, short chunks have two sentences if they fit.
@pytest.mark.parametrize(("pairs", "more"), [(False, 1.25), (True, 1.01)])
def test_a_share_of_chunks_is_short(documents, table, pairs, more):
    full = cut(documents, table, pairs=pairs)
    short = cut(documents, table, short_seq_prob=0.5, pairs=pairs)
    assert len(short) > more * len(full)
    again = cut(documents, table, short_seq_prob=0.5, pairs=pairs)
    np.testing.assert_array_equal(short.starts, again.starts)


def test_chunks_of_pairs_have_whole_sentences(documents, table, parsed):
    """Punctuation at a cut would reveal the order of the segments."""
    ends = set(documents.sentence_starts.tolist())
    for short_seq_prob in (0.0, 0.5):
        chunks = cut(
            documents, table, max_tokens=125, short_seq_prob=short_seq_prob
        )
        assert ends.issuperset(chunks.starts)
        assert ends.issuperset(chunks.ends)
        # Two sentences have at most 120 tokens, so only the last chunk that is
        # cut from a document may have a single one: its last or first sentence.
        features = parsed(chunks.features())
        for _, group in itertools.groupby(features, lambda x: x["document"]):
            singles = [not chunk["sentence_starts"] for chunk in group]
            assert sum(singles) <= 1
            assert not any(singles[1:-1])


def test_without_pairs_documents_are_joined(documents, table, parsed):
    chunks = cut(documents, table, pairs=False)
    features = parsed(chunks.features())
    lengths = [len(chunk["tokens"]) for chunk in features]
    # All chunks but the last are only shortened to the start of a word.
    assert np.mean(lengths[:-1]) > 59
    text = list(itertools.chain(*(chunk["tokens"] for chunk in features)))
    assert text.count(SEP) == 299
    assert [i for i in text if i != SEP] == documents.tokens.tolist()


def test_half_of_the_documents_are_cut_from_the_end(table, tokenized):
    """The sentence that begins the next chunk is longer than others."""
    rng = np.random.default_rng(0)
    documents = tokenized([30] * 400, rng.integers(1, 40, 30 * 400))
    chunks = cut(documents, table)
    boundaries = chunks.boundaries
    pairs = np.flatnonzero(np.diff(boundaries.splits) == 1)
    first = boundaries.values[boundaries.splits[pairs]]
    second = (chunks.ends - chunks.starts)[pairs] - first
    assert len(first) > 1000
    # Cut from the start only, the first one is longer in 59 %; 5 errors.
    assert np.mean(first > second) == pytest.approx(
        np.mean(first < second), abs=5 / len(first) ** 0.5
    )


@pytest.mark.parametrize("pairs", [True, False])
def test_text_without_tokens_has_no_chunks(table, tokenized, parsed, pairs):
    chunks = cut(tokenized([], []), table, pairs=pairs)
    assert len(chunks) == len(parsed(chunks.features())) == 0
