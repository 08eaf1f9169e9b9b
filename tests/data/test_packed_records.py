"""Packed records, from `create-data --pack` to batches and training."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.array_ops import ArrayOps
from albert_tf.data.chunk_packing import pack_chunks
from albert_tf.data.data_config import MaskingConfig
from albert_tf.data.dynamic_examples import (
    CHUNK_FEATURES,
    ROW_FEATURES,
    ExampleSettings,
    make_examples,
)
from albert_tf.data.packed_rows import share_predictions
from albert_tf.data.record_checks import TextLimits, parse_checked, verify_file
from albert_tf.data.records import open_records
from albert_tf.data.sentence_pairs import draw_partners
from albert_tf.errors import InputError
from albert_tf.tensor_ops import TensorOps

SEQ, SEQUENCES = 64, 6


@pytest.fixture(scope="module")
def random_documents(tokenized):
    def make(number, most_sentences, most_tokens):
        rng = np.random.default_rng(1)
        sentences = rng.integers(1, most_sentences + 1, number)
        lengths = rng.integers(1, most_tokens + 1, sentences.sum())
        return tokenized(sentences, lengths)

    return make


def pack(documents, table, **settings):
    settings = {"max_seq_length": SEQ, "max_sequences": SEQUENCES} | settings
    return pack_chunks(documents, table, np.random.default_rng(0), **settings)


@pytest.fixture(scope="module")
def prose(random_documents):
    """Prose: 60 documents of 1 to 80 sentences of 1 to 24 tokens."""
    return random_documents(60, 80, 24)


@pytest.fixture(scope="module")
def rows(prose, table, parsed):
    """The features of a record of each packed row."""
    return parsed(pack(prose, table).features())


def sizes_of(row):
    return np.diff([0, *row["chunk_starts"], len(row["tokens"])])


@pytest.mark.parametrize(
    ("number", "most_sentences", "most_tokens", "most_padding"),
    [
        (60, 80, 24, 0.02),  # prose
        (3, 900, 24, 0.02),  # long documents
        (60, 80, 150, 0.25),  # most sentences are too long for a row
        (900, 1, 9, 0.5),  # a short sentence each: six fill half a row
        (1, 1, 1, 1.0),
    ],
)
def test_every_token_is_in_a_row_of_bounded_length(
    table,
    random_documents,
    parsed,
    number,
    most_sentences,
    most_tokens,
    most_padding,
):
    documents = random_documents(number, most_sentences, most_tokens)
    packed = pack(documents, table, short_seq_prob=0.1)
    chunks = packed.chunks
    order = np.argsort(chunks.starts)
    assert (chunks.ends[order][:-1] <= chunks.starts[order][1:]).all()
    used = 0
    for row in parsed(packed.features()):
        sizes = sizes_of(row)
        assert sizes.min() >= 1
        assert len(sizes) == len(row["documents"]) <= SEQUENCES
        used += sizes.sum() + 3 * len(sizes)
        assert sizes.sum() + 3 * len(sizes) <= SEQ
    assert 1 - used / (SEQ * max(1, len(packed))) <= most_padding
    assert (chunks.ends - chunks.starts).sum() == len(documents.tokens)
    limits = documents.document_offsets
    document = np.searchsorted(limits, chunks.starts, "right") - 1
    np.testing.assert_array_equal(document, chunks.documents)
    assert (chunks.ends <= limits[document + 1]).all()


def test_long_sequences_are_preferred(prose, table):
    packed = pack(prose, table)
    lengths = np.sort(packed.chunks.ends - packed.chunks.starts)
    # Half of the text is in sequences of half a row or more.
    total = np.cumsum(lengths)
    assert lengths[np.searchsorted(total, total[-1] / 2)] > SEQ // 2
    assert lengths[-1] == SEQ - 3


def test_many_short_documents_are_packed_quickly(table, tokenized):
    """The time per row must not depend on their number."""
    documents = tokenized(np.ones(20000, int), np.full(20000, 9))
    packed = pack(documents, table)
    assert len(packed) == 4000


@pytest.fixture(scope="module")
def examples_of(serialize, table):
    """Returns `examples_of(records)`: a batch of packed or unpacked rows."""

    def make(records, order="sop"):
        features, sequences = ROW_FEATURES, (SEQUENCES,)
        if "document" in records[0]:
            features, sequences = CHUNK_FEATURES, ()
        masking = MaskingConfig(max_predictions_per_seq=12)
        batch = make_examples(
            tf.io.parse_example(list(map(serialize, records)), features),
            ExampleSettings(table, SEQ, order, masking, *sequences),
            tf.constant([0, 0], tf.int64),
        )
        return {name: value.numpy() for name, value in batch.items()}

    return make


@pytest.fixture(scope="module")
def sequences_of(unpacked, segments_of):
    """Returns `sequences_of(batch)`: label, A and B of each row's sequences."""

    def sequences(batch):
        for records in unpacked(batch):
            names = records[0]
            yield list(
                segments_of(
                    {x: np.stack([r[x] for r in records]) for x in names}
                )
            )

    return sequences


def chunks_of(row):
    """Returns the start and end of each chunk of a row."""
    edges = [0, *row["chunk_starts"], len(row["tokens"])]
    return list(itertools.pairwise(edges))


def test_sequences_are_chunks_in_order_or_swapped(
    rows, examples_of, sequences_of
):
    batch = examples_of(rows)
    labels = []
    for row, found in zip(rows, sequences_of(batch), strict=True):
        for (label, a, b), (start, end) in zip(
            found, chunks_of(row), strict=True
        ):
            chunk = row["tokens"][start:end]
            one, other = (b, a) if label else (a, b)
            assert one + other == chunk
            assert a != b
            inside = [s - start for s in row["sentence_starts"]]
            inside = [s for s in inside if 0 < s < end - start]
            assert len(one) in inside if inside else other == []
            labels += [label] if inside else []
    weights = batch["sentence_order_weights"]
    assert weights.sum() == len(labels)
    assert not batch["sentence_order_labels"][weights == 0].any()
    assert np.mean(labels) == pytest.approx(0.5, abs=2.5 / len(labels) ** 0.5)


@pytest.mark.parametrize("ops", [ArrayOps(), TensorOps()])
def test_partners_are_chosen_and_of_another_document(ops):
    lengths = np.array([5, 9, 5, 7, 6, 30], np.int32)
    documents = np.array([0, 1, 1, 1, 2, 3])
    chosen = np.array([True, True, True, True, False, True])
    draws = np.array([0.5, 0.1, 0.2, 0.3, 0.4, 0.9], np.float32)
    partners, found = map(
        np.asarray, draw_partners(ops, lengths, documents, chosen, draws)
    )
    # By length: 2 and 0 with 5 tokens, then 3, 1 and 5.
    assert found[chosen].tolist() == [True, True, False, True, True]
    assert partners[chosen & found].tolist() == [2, 0, 0, 1]


def test_packing_does_not_change_the_number_of_predictions(rows, examples_of):
    packed = examples_of(rows)
    assert packed["masked_lm_weights"].sum(1).max() <= 12
    chunks = [
        {
            "tokens": row["tokens"][start:end],
            "sentence_starts": [
                s - start for s in row["sentence_starts"] if start < s < end
            ],
            "document": [0],
        }
        for row in rows
        for start, end in chunks_of(row)
    ]
    alone = examples_of(chunks)
    total = alone["masked_lm_weights"].sum()
    assert packed["masked_lm_weights"].sum() == pytest.approx(total, rel=0.005)
    assert packed["input_mask"].sum() == alone["input_mask"].sum()


def test_predictions_of_a_row_are_reduced_in_proportion():
    quotas = tf.constant([4, 6, 10, 3, 30, 0, 9], tf.int32)
    shared = share_predictions(quotas, tf.constant([3, 1, 2, 1], tf.int64), 10)
    assert shared.numpy().tolist() == [2, 3, 5, 3, 10, 0, 9]


@pytest.fixture
def make(create, small_groups):
    def run(name="packed", **settings):
        settings = {"masking": "dynamic", "pack": True} | settings
        return create(name, **settings)

    return run


LIMITS = TextLimits(SEQ - 3, 2000, SEQUENCES)
GOOD = {
    "tokens": list(range(10, 40)),
    "chunk_starts": [10, 25],
    "sentence_starts": [4, 18],
    "documents": [0, 1, 0],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chunk_starts": [25, 10]}, "chunk_starts must ascend"),
        ({"chunk_starts": [-1, 10]}, "chunk_starts must ascend"),
        ({"chunk_starts": [10, 2**62]}, "chunk_starts must ascend"),
        ({"chunk_starts": [10, 30]}, "be within the tokens"),
        ({"chunk_starts": [0, 10]}, "be within the tokens"),
        ({"sentence_starts": [18, 4]}, "sentence_starts must ascend"),
        ({"sentence_starts": [4, 30]}, "sentence_starts must be within"),
        ({"documents": [0, 1]}, "must have one document for each chunk"),
        ({"documents": []}, "must have one document for each chunk"),
        ({"tokens": list(range(10, 70))}, "at most 64 tokens with 3 special"),
        ({"tokens": [10**6] * 30}, "tokens must be from 0 to"),
        ({"tokens": []}, "1 to 61 tokens"),
        (
            {"chunk_starts": [*range(3, 21, 3)], "documents": [0] * 7},
            "at most 6 chunks",
        ),
    ],
)
def test_hostile_records_are_errors(assert_refused, serialize, change, message):
    assert_refused(serialize(GOOD | change), LIMITS, message)


def test_valid_records_are_accepted(tmp_path, serialize, write_records):
    record = serialize(GOOD)
    parse_checked(tf.constant([record]), LIMITS)
    path = write_records(tmp_path / "good.tfrecord", record)
    assert verify_file(str(path), LIMITS) == 1


def test_unpacked_records_with_a_manifest_of_packed_ones(make, edited):
    folder, _ = make(pack=False)
    with edited(folder / "manifest.json") as manifest:
        manifest["settings"] |= {"pack": True, "max_sequences_per_row": 4}
    with pytest.raises(
        InputError, match="must have one document for each chunk"
    ):
        open_records(folder).verify()
