"""Statistics of our records against those of the original's.

The original's `stats.json` has the mean and standard deviation of six runs over
the same text with different seeds, each of two passes. Ours is one run of eight
passes, equivalent to four runs, so the difference between two equal procedures
has a standard error of std * sqrt(1/6 + 1/4). Five of those are allowed: std is
itself estimated from six values, so three are not rare (t distribution).
"""

import collections
import json
import math

import numpy as np
import pytest

RUNS = 4  # of the original's two passes
ERRORS = 5 * math.sqrt(1 / 6 + 1 / RUNS)


@pytest.fixture(
    scope="module", params=["sop", pytest.param("nsp", marks=pytest.mark.long)]
)
def case(request, shared, google_tokenizer, created, read_records):
    """The original's statistics, our records and our counts."""
    golden = shared("golden", "google", "pretraining_data")
    stats = json.loads((golden / "stats.json").read_text("utf-8"))
    folder, manifest = created(
        input=golden / "input.txt",
        tokenizer=google_tokenizer,
        max_seq_length=128,
        max_predictions_per_seq=20,
        dupe_factor=2 * RUNS,
        sentence_order=request.param,
        one_sentence_chunks="random_next",
        num_shards=1,
    )
    return (
        stats[f"{request.param}_other_seeds"],
        read_records(*folder.glob("*.tfrecord")),
        manifest["splits"]["train"],
    )


def measure(records, put_labels_back):
    """Returns the statistics of `stats.json`, and the lengths of runs."""
    ids, mask = records["input_ids"], records["input_mask"]
    lengths = mask.sum(axis=1)
    is_special = np.isin(put_labels_back(records), [2, 3]) & (mask == 1)
    rows, slots = np.nonzero(records["masked_lm_weights"])
    labels = records["masked_lm_ids"][rows, slots]
    inputs = ids[rows, records["masked_lm_positions"][rows, slots]]
    quotas = np.clip(np.rint(lengths * 0.15), 1, 20)
    predictions = records["masked_lm_weights"].sum(axis=1)
    runs, num_words, num_masked = word_runs(records, is_special)
    return {
        "instances": len(ids) / RUNS,
        "label_1_rate": records["next_sentence_labels"].mean(),
        "mean_length": lengths.mean(),
        "share_full_length": (lengths == 128).mean(),
        # [CLS] and [SEP] included.
        "mean_length_of_first_part": (mask - records["segment_ids"])
        .sum(axis=1)
        .mean(),
        "mean_predictions": predictions.mean(),
        "masking_rate_of_tokens": predictions.sum() / lengths.sum(),
        "masking_rate_of_non_special_tokens": predictions.sum()
        / (lengths - is_special.sum(axis=1)).sum(),
        "share_with_all_predictions_used": (predictions == quotas).mean(),
        "share_mask_token": (inputs == 4).mean(),
        "share_kept": (inputs == labels).mean(),
        "share_random": ((inputs != 4) & (inputs != labels)).mean(),
        "mean_words": num_words / len(ids),
        "share_of_words_masked": num_masked / num_words,
    }, runs


def word_runs(records, is_special):
    """Returns lengths of runs of masked words, all words, masked words."""
    runs = collections.Counter()
    num_words = num_masked = 0
    for row in range(len(is_special)):
        text = np.flatnonzero(
            (records["input_mask"][row] == 1) & ~is_special[row]
        )
        begins = records["token_boundary"][row, text] == 1
        begins[0] = True
        used = records["masked_lm_weights"][row] > 0
        masked = np.isin(text, records["masked_lm_positions"][row, used])
        whole = np.logical_and.reduceat(masked, np.flatnonzero(begins))
        num_words += len(whole)
        num_masked += whole.sum()
        edges = np.flatnonzero(np.diff(np.pad(whole.astype(int), 1)))
        runs.update((edges[1::2] - edges[::2]).tolist())
    return runs, num_words, num_masked


def test_statistics_are_those_of_the_original(case, put_labels_back):
    golden, records, split = case
    found, runs = measure(records, put_labels_back)
    counts = split["counts"]
    found["share_one_sentence_chunks"] = (
        counts["one_sentence_chunks"] / counts["chunks"]
    )
    found["share_truncated"] = counts["truncated_pairs"] / counts["chunks"]
    off = {}
    for name, value in found.items():
        mean, allowed = golden[name]["mean"], ERRORS * golden[name]["std"]
        if abs(value - mean) > allowed:
            off[name] = f"{value:.5f}, not {mean:.5f} +- {allowed:.5f}"
    assert not off

    wanted = golden["runs_of_masked_words_total"]
    for length in ("1", "2", "3", "4"):
        share = runs[int(length)] / sum(runs.values())
        golden_share = wanted[length] / sum(wanted.values())
        error = math.sqrt(
            golden_share
            * (1 - golden_share)
            * (1 / sum(runs.values()) + 1 / sum(wanted.values()))
        )
        assert abs(share - golden_share) < 5 * error, (length, share)


def test_manifest_counts_what_the_records_hold(case):
    _, records, split = case
    counts, lengths = split["counts"], records["input_mask"].sum(axis=1)
    assert counts["documents"] == 85
    assert counts["sentences"] == 2306
    assert counts["instances"] == len(lengths)
    assert counts["input_tokens"] == lengths.sum()
    assert counts["predictions"] == records["masked_lm_weights"].sum()
    ones = int(records["next_sentence_labels"].sum())
    assert split["labels"] == {"0": len(lengths) - ones, "1": ones}
    assert split["padding_fraction"] == pytest.approx(1 - lengths.mean() / 128)
    assert split["masking_rate"] == pytest.approx(
        counts["predictions"] / lengths.sum()
    )
    labels = records["masked_lm_ids"][records["masked_lm_weights"] > 0]
    most = np.bincount(labels).max()
    assert split["constant_guess_accuracy"] == most / len(labels)
