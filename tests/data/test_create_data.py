import hashlib
import json
import pathlib
import random

import numpy as np
import pytest

from albert_tf.analysis.records import analyze_records
from albert_tf.cli.main import main
from albert_tf.data import create_data
from albert_tf.data.manifest import read_manifest
from albert_tf.data.records import open_records
from albert_tf.data.shards import Limits, group_files
from albert_tf.text.tokenizer_files import load_tokenizer
from albert_tf.text.wordpiece_tokenizer import AlbertWordPieceTokenizer

# Blocks of a few documents, so that a small corpus has several.
SMALL_BLOCKS = Limits(min_block_bytes=8000, max_block_bytes=8000)


@pytest.mark.parametrize(
    ("settings", "num_workers"),
    [
        ({}, 3),
        ({"masking": "dynamic", "pack": True}, 2),
        pytest.param({"compress": True}, 2, marks=pytest.mark.slow),
        pytest.param({"masking": "dynamic"}, 2, marks=pytest.mark.slow),
    ],
)
def test_number_of_workers_does_not_change_the_bytes(
    created, contents, settings, num_workers
):
    settings = {"heldout_fraction": 0.2, "limits": SMALL_BLOCKS} | settings
    one, several = (
        contents(created(num_workers=number, **settings)[0])
        for number in (1, num_workers)
    )
    assert len(one) == 1 + 2 + 3 + 1  # manifest, tokenizer, shards, held out
    assert several == one


def test_records_depend_on_the_seed(created, create, contents):
    first, other = (contents(created(seed=x)[0]) for x in (12345, 2))
    assert first == contents(create()[0])
    assert first.keys() == other.keys()
    shards = [name for name in first if name.endswith(".tfrecord")]
    assert all(first[name] != other[name] for name in shards)


def test_blocks_and_passes_have_independent_randomness(
    create, corpus, tmp_path, read_records
):
    text = (corpus / "a.txt").read_text("utf-8")
    (tmp_path / "twice.txt").write_text(f"{text}\n{text}", "utf-8")
    folder, _ = create(
        input=tmp_path / "twice.txt",
        sentence_order="none",
        short_seq_prob=0.0,
        limits=SMALL_BLOCKS,
    )
    # Chunks have the same text, so equal records would mean equal masks.
    records = read_records(*folder.glob("*.tfrecord"))
    ids, lengths = records["input_ids"], records["input_mask"].sum(1)
    long = [row.tobytes() for row in ids[lengths > 32]]
    assert len(set(long)) == len(long) > 200


def test_records_are_distributed_and_shuffled(created, documents, read_records):
    folder, manifest = created(dupe_factor=1, sentence_order="none")
    shards = sorted(folder.glob("*.tfrecord"))
    assert [shard.name for shard in shards] == [
        f"pretraining-0000{shard}-of-00003.tfrecord" for shard in range(3)
    ]
    sizes = [len(read_records(shard)["input_ids"]) for shard in shards]
    total = manifest["splits"]["train"]["counts"]["instances"]
    assert sum(sizes) == total
    # Binomial with p = 1/3: 5 standard deviations.
    assert max(abs(size - total / 3) for size in sizes) < 5 * np.sqrt(total)
    # Text comes in order; records of shuffled shards do not.
    tokenizer = load_tokenizer(folder)
    first_ids = [tuple(tokenizer.encode(d[0])[:8]) for d in documents]
    for shard in shards:
        ids = read_records(shard)["input_ids"][:, 1:9]
        order = [first_ids.index(t) for t in map(tuple, ids) if t in first_ids]
        assert order != sorted(order)


def test_heldout_documents_are_never_trained_on(
    create, documents, small_tokenizer, read_records, put_labels_back
):
    folder, manifest = create(
        heldout_fraction=0.25, one_sentence_chunks="random_next"
    )
    splits = manifest["splits"]
    counts = {name: split["counts"] for name, split in splits.items()}
    assert splits["train"]["passes"] == 2
    assert splits["heldout"]["passes"] == 1
    assert counts["train"]["documents"] + counts["heldout"]["documents"] == 120
    assert counts["heldout"]["documents"] > 10
    # Every sentence ends with its number, so that the last five tokens of a
    # sentence identify its document.
    document_of_ending = {}
    for number, document in enumerate(documents):
        for text in document:
            ending = tuple(small_tokenizer.encode(text)[-5:])
            document_of_ending[ending] = number
    found = {}
    for split, prefix in (("train", "pretraining"), ("heldout", "heldout")):
        records = read_records(*folder.glob(f"{prefix}-*"))
        ids = put_labels_back(records)
        windows = np.lib.stride_tricks.sliding_window_view(ids, 5, axis=1)
        keys = set(map(tuple, windows.reshape(-1, 5).tolist()))
        endings = keys & document_of_ending.keys()
        found[split] = {document_of_ending[key] for key in endings}
        assert len(found[split]) == counts[split]["documents"]
    assert not found["train"] & found["heldout"]


def test_manifest(created, corpus, small_tokenizer):
    folder, manifest = created(heldout_fraction=0.2)
    assert read_manifest(folder) == manifest
    assert manifest["settings"]["max_seq_length"] == 64
    assert manifest["settings"]["seed"] == 12345
    assert manifest["tokenizer"]["fingerprint"] == small_tokenizer.fingerprint
    assert manifest["tokenizer"]["vocab_size"] == 200
    names = [file["name"] for file in manifest["inputs"]]
    assert names == ["a.txt", "b.txt.gz", "c.txt"]
    described = [(corpus, file) for file in manifest["inputs"]]
    for split in manifest["splits"].values():
        counts = split["counts"]
        assert sum(split["labels"].values()) == counts["pairs"]
        assert counts["pairs"] == counts["instances"]
        assert sum(f["records"] for f in split["files"]) == counts["instances"]
        parts = ("instances", "dropped_chunks", "dropped_identical_pairs")
        assert counts["chunks"] == sum(counts[name] for name in parts)
        described += [(folder, file) for file in split["files"]]
    for parent, file in described:
        content = (parent / file["name"]).read_bytes()
        assert file["bytes"] == len(content)
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
    text = (folder / "manifest.json").read_text("utf-8")
    assert str(corpus) not in text
    assert str(folder) not in text
    assert load_tokenizer(folder).fingerprint == small_tokenizer.fingerprint


def test_wordpiece(create, documents):
    words = {w for d in documents for s in d for w in s.lower().split()}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."]
    pieces += sorted({word[:4] for word in words})
    pieces += sorted({f"##{c}" for word in words for c in word[4:]})
    tokenizer = AlbertWordPieceTokenizer("\n".join(pieces).encode())
    folder, manifest = create(tokenizer=tokenizer)
    assert manifest["tokenizer"]["file"] == "vocab.txt"
    assert load_tokenizer(folder).settings == tokenizer.settings

    # Overwriting the folder removes the other kind of vocabulary.
    create(overwrite=True)
    assert (folder / "spiece.model").exists()
    assert not (folder / "vocab.txt").exists()


def test_words_that_are_never_masked_and_unknown_ones_are_reported(
    tmp_path, capfd
):
    """Clauses of scripts without spaces are words longer than the quota."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(pieces + [f"##{x}" for x in letters]))
    rng = random.Random(1)
    clauses = ["".join(rng.sample(letters, 12)) for _ in range(800)]
    pairs = zip(clauses[::2], clauses[1::2], strict=True)
    text = "\n\n".join(map(" 7 ".join, pairs))
    (tmp_path / "text.txt").write_text(text)
    flags = ["--max_seq_length=32", "--heldout_fraction=0.2"]
    command = ["create-data", f"--input={tmp_path}/text.txt", "--num_workers=1"]
    command.append("--sentence_order=none")
    where = [f"--spm_model_file={vocabulary}", f"--output={tmp_path}/data"]
    assert main([*command, *where, *flags]) == 0
    output, warnings = capfd.readouterr()
    manifest = read_manifest(tmp_path / "data")
    for name, split in manifest["splits"].items():
        rate, counts = split["masking_rate"], split["counts"]
        assert f"{name}: {counts['instances']} records" in output
        assert counts["unknown_tokens"] == counts["sentences"]
        assert f"masking rate {rate:.1%}" in output
        measured = analyze_records(open_records(tmp_path / "data", name))
        assert rate == pytest.approx(measured.masking_rate, rel=0.1)
        assert 0 < rate < 0.08
        unknown = counts["unknown_tokens"] / counts["tokens"]
        assert f"{name}: {unknown:.1%} of the tokens are unknown" in warnings
        assert f"{name}: only {rate:.1%} of the tokens are masked" in warnings


def test_constant_guess_is_chosen_on_training_labels(created, read_records):
    folder, manifest = created(heldout_fraction=0.3)

    def labels(prefix):
        records = read_records(*folder.glob(f"{prefix}-*"))
        return records["masked_lm_ids"][records["masked_lm_weights"] > 0]

    guess = np.bincount(labels("pretraining")).argmax()
    assert manifest["constant_guess"]["id"] == guess
    for split, prefix in (("train", "pretraining"), ("heldout", "heldout")):
        accuracy = manifest["splits"][split]["constant_guess_accuracy"]
        assert accuracy == (labels(prefix) == guess).mean()


def test_progress_is_shown_on_request(
    corpus, small_tokenizer, tmp_path, capsys
):
    config = create_data.PretrainingDataConfig(
        input=corpus / "a.txt",
        output=tmp_path / "data",
        tokenizer=small_tokenizer,
        max_seq_length=64,
        masking="static",
        dupe_factor=1,
    )
    create_data.create_pretraining_data(config, progress=True)
    assert "100%" in capsys.readouterr().err
    assert pathlib.Path(config.output).is_dir()


def test_oddities_are_counted_and_kept_as_text(
    create, small_tokenizer, tmp_path
):
    """Also with a tokenizer that converts "[SEP]" to a special token."""
    row = {"text": "Ba \0 ro nti. " * 30 + "[SEP] sel [MASK] ka. [SEP]"}
    line = json.dumps(row).encode()
    path = tmp_path / "text.jsonl"
    path.write_bytes(line + b"\n" + line.replace(b"sel", b"s\xffl"))
    found = [
        create(
            f"data{matches}",
            input=path,
            text_format="jsonl",
            encoding_errors="replace",
            masking="dynamic",
            tokenizer=small_tokenizer.with_settings(
                match_special_tokens=matches
            ),
        )
        for matches in (False, True)
    ]
    digests = []
    for _, manifest in found:
        assert manifest["oddities"] == {
            "blank_files": 0,
            "invalid_utf8": 1,
            "nul_characters": 60,
            "carriage_returns": 0,
            "control_pieces": 6,
        }
        assert manifest["settings"]["encoding_errors"] == "replace"
        files = manifest["splits"]["train"]["files"]
        digests.append([file["sha256"] for file in files])
    assert digests[0] == digests[1]


def test_files_are_grouped_by_size(tmp_path):
    sizes = {"a": 30, "b": 80, "c": 10, "d.gz": 30, "e": 99, "f": 1}
    files = [tmp_path / name for name in sizes]
    for path, size in zip(files, sizes.values(), strict=True):
        path.write_bytes(b"x" * size)
    groups = list(group_files(files, Limits(group_bytes=100)))
    assert [group.number for group in groups] == [0, 1, 2]
    assert [group.text_bytes for group in groups] == [110, 10 + 3 * 30, 100]
    assert [file for group in groups for file in group.files] == files
    [group] = group_files(files, Limits())
    assert group.files == tuple(files)
