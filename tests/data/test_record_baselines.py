"""The accuracy of one constant guess, on one or several data sets."""

import json

import numpy as np
import pytest

from albert_tf.data.frequent_labels import describe_labels, rank_labels
from albert_tf.data.record_baselines import compute_baselines
from albert_tf.data.record_files import RecordFile
from albert_tf.data.records import open_records

NAME = "mlm_unigram_accuracy"


@pytest.fixture
def folders(create, tmp_path):
    """Data of two languages with different most frequent tokens."""
    rng, made = np.random.default_rng(1), []
    for words, count in ((["ka", "sel", "lo"], 60), (["mur", "pin", "lo"], 90)):
        drawn = rng.choice(words, [count, 4, 12], p=[0.55, 0.05, 0.4])
        texts = ["\n".join(map(" ".join, document)) for document in drawn]
        file = tmp_path / f"{words[0]}.txt"
        file.write_text("\n\n".join(texts))
        folder, _ = create(words[0], input=file, heldout_fraction=0.3)
        made.append(folder)
    return made


@pytest.fixture
def labels_of(read_records):
    def labels(folders, prefix):
        paths = [x for folder in folders for x in folder.glob(f"{prefix}-*")]
        records = read_records(*paths)
        return records["masked_lm_ids"][records["masked_lm_weights"] > 0]

    return labels


def test_several_data_sets_have_one_guess(folders, labels_of):
    records = open_records(",".join(map(str, folders)), heldout=True)
    guess = np.bincount(labels_of(folders, "pretraining")).argmax()
    alone = [open_records(folder, "heldout").baselines() for folder in folders]
    for split, prefix in (("train", "pretraining"), ("heldout", "heldout")):
        expected = (labels_of(folders, prefix) == guess).mean()
        assert records.baselines(split)[NAME] == pytest.approx(expected)
    assert records.baselines("heldout")[NAME] < min(x[NAME] for x in alone)
    mixture = f"a=1:{folders[0]},b=9:{folders[1]}"
    assert open_records(mixture, "heldout").baselines()[NAME] == pytest.approx(
        expected
    )


def test_manifests_without_counts(folders, edited):
    for folder in folders:
        with edited(folder / "manifest.json") as manifest:
            for split in manifest["splits"].values():
                del split["frequent_labels"]
    joined = ",".join(map(str, folders))
    # They have different guesses, whose accuracies are of no use together.
    found = open_records(joined, heldout=True).baselines("heldout")
    assert "sop_chance" in found
    assert NAME not in found
    splits = []
    for folder in folders:
        with edited(folder / "manifest.json") as manifest:
            manifest["constant_guess"]["id"] = 5
            splits.append(manifest["splits"]["heldout"])
        alone = open_records(folder, "heldout").baselines()
        assert alone[NAME] == splits[-1]["constant_guess_accuracy"]
    expected = np.average(
        [split["constant_guess_accuracy"] for split in splits],
        weights=[split["counts"]["predictions"] for split in splits],
    )
    found = open_records(joined, heldout=True).baselines("heldout")
    assert found[NAME] == pytest.approx(expected)


def baseline(*trained):
    """Returns the baseline of data sets with these counts of 300 labels."""
    files = []
    for counts in trained:
        counts = np.array([*counts] + [0] * (300 - len(counts)))
        ids = rank_labels(counts)
        total = int(counts.sum())
        split = {
            "frequent_labels": describe_labels(counts, ids),
            "constant_guess_accuracy": counts.max() / total,
            "counts": {"predictions": total},
        }
        manifest = {
            "constant_guess": {"id": ids[0]},
            "splits": {"train": split},
        }
        files.append(RecordFile("x", json.loads(json.dumps(manifest))))
    return compute_baselines(files, "train", "none").get(NAME)


def test_guess_that_is_counted_in_only_one_data_set():
    own, shared = 120, [1] * 200
    first, second = [0, 0, 40, *shared], [0, 0, 50, *shared]
    first[0], second[1] = own, own
    # Id 2 is counted in both, but id 0 or 1 might be the most frequent one.
    assert baseline(first, second) is None
    first[2], second[2] = 100, 110
    total = sum(first) + sum(second)
    assert baseline(first, second) == pytest.approx(210 / total)
    assert baseline(first) == own / sum(first)
    assert baseline(first, first) == pytest.approx(own / sum(first))
