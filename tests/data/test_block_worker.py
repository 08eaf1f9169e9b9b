import itertools

import numpy as np
import pytest

from albert_tf.data.block_worker import BlockTask, BlockWorker
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.data.documents import TextBlock


@pytest.fixture(scope="module")
def worker(small_tokenizer):
    return BlockWorker(
        PretrainingDataConfig(
            input="-",
            output="-",
            tokenizer=small_tokenizer,
            max_seq_length=64,
            max_predictions_per_seq=10,
            masking="static",
            dupe_factor=2,
            heldout_fraction=0.5,
            sentence_order="none",
            short_seq_prob=0.0,
        ),
        {"train": 4, "heldout": 2},
    )


@pytest.fixture(scope="module")
def make(worker, documents):
    """Returns `make(split, index) -> BlockRecords` of the same text."""

    def run(split="train", index=0):
        block = TextBlock(split, index, documents[:20], 9999)
        passes = range(worker.config.passes(split))
        return worker(BlockTask(block, passes))

    return run


def records_of(block):
    return [
        joined[start:end]
        for lengths, joined in block.shards
        for start, end in itertools.pairwise([0, *np.cumsum(lengths)])
    ]


def test_blocks_passes_and_splits_have_independent_randomness(make):
    first, second = records_of(make(index=0)), records_of(make(index=1))
    heldout = records_of(make("heldout"))
    # Without short sequences, the chunks of all passes have the same text, so
    # equal records would mean equal pairs and masks.
    assert len(first) == len(second) == 2 * len(heldout)
    assert len({*first, *second, *heldout}) == 5 * len(heldout)
