"""Records are found and checked once, and refused where they do not fit."""

import collections
import gzip
import os
import pathlib
import shutil
import struct

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.data import record_files, record_samples
from albert_tf.data.manifest import read_manifest
from albert_tf.data.record_checks import count_records, read_records
from albert_tf.data.records import open_records
from albert_tf.data.tfrecords import frame_records, parse_example
from albert_tf.errors import InputError
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import VocabularyConfig, train_vocabulary


@pytest.fixture
def folder(copy_of_created):
    return copy_of_created(heldout_fraction=0.3)


def paths(patterns, split="train"):
    return [file.path for file in open_records(patterns, split).files[split]]


def test_folder_stands_for_the_files_of_a_split(folder):
    records = open_records(folder, heldout=True)
    assert [file.path for file in records.files["train"]] == [
        f"{folder}/pretraining-0000{shard}-of-00003.tfrecord"
        for shard in range(3)
    ]
    [heldout] = records.files["heldout"]
    assert heldout.path == f"{folder}/heldout-00000-of-00001.tfrecord"
    assert open_records(folder, "heldout").files == {"heldout": (heldout,)}
    for file in (*records.files["train"], heldout):
        assert file.num_records == count_records(file.path) > 0
        assert file.manifest["settings"]["max_seq_length"] == 64


def test_patterns_find_the_manifest_beside_the_files(folder, tmp_path):
    by_folder = paths(folder)
    assert paths(f"{folder}/pretraining-*") == by_folder
    assert paths(f"{folder}/") == by_folder
    assert paths(by_folder) == by_folder
    assert set(paths(f"{folder}/pretraining-00001*, {folder}")) == set(
        by_folder
    )
    shutil.copy(by_folder[0], tmp_path / "copy[1].tfrecord")
    copy = open_records(f"{tmp_path}/copy[1].tfrecord")
    [file] = copy.files["train"]
    assert copy.manifest is file.manifest is copy.tokenizer is None
    assert file.num_records == count_records(by_folder[0])


def test_files_are_never_held_out(folder):
    """Only a folder has splits, so files are never scored as held out."""
    assert "heldout" in open_records(folder, heldout=True).files
    files = open_records(f"{folder}/pretraining-*", heldout=True)
    assert files.manifest
    assert "heldout" not in files.files


def test_folders_with_and_without_held_out_records(created, folder):
    other, _ = created(heldout_fraction=0.0)
    [expected] = open_records(folder, heldout=True).files["heldout"]
    for given in (f"{folder},{other}", f"{other},{folder}"):
        records = open_records(given, heldout=True)
        assert records.files["heldout"] == (expected,)
        assert 0 < records.baselines("heldout")["mlm_unigram_accuracy"] < 1


def test_opening_inspects_each_file_once(folder, small_model, monkeypatch):
    """Thousands of files may be in a bucket."""
    looks = collections.Counter()

    def count(owner, name):
        original = getattr(owner, name)

        def counting(source, *args, **kwargs):
            looks[name, getattr(source, "path", str(source))] += 1
            return original(source, *args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(tf.io.gfile, "stat")
    count(record_files, "count_records")
    count(record_samples, "sample_records")
    records = open_records(folder, heldout=True)
    records.check_model(small_model)
    for step in (0, 3):  # The second resumes.
        records.dataset(8, first_example=8 * step)
    records.dataset(8, training=False, split="heldout")
    files = [x.path for split in records.files.values() for x in split]
    assert looks == dict.fromkeys(
        [
            *(("stat", path) for path in files),
            *(("count_records", path) for path in files),
            ("sample_records", files[0]),
            ("sample_records", files[-1]),
        ],
        1,
    )


def test_records_of_the_original(shared):
    path = shared("golden", "google", "pretraining_data", "sop.tfrecord")
    records = open_records(path)
    records.check_model(AlbertConfig(vocab_size=30000))
    sizes = records.max_seq_length, records.max_predictions_per_seq
    assert sizes == (128, 20)
    assert records.verify() == 1151


def test_record_longer_than_the_file_is_an_error(tmp_path, write_records):
    """TensorFlow would allocate them, and crash."""
    path = write_records(tmp_path / "a.tfrecord", *[b"x" * 100] * 3)
    good = path.read_bytes()
    for length in (101, 2**40, 2**63, 2**64 - 1):
        header = struct.pack("<Q", length)
        checksum = frame_records([header])[0][-4:]
        bad = good[:116] + header + checksum + good[128:]
        path.write_bytes(bad)
        packed = tmp_path / "a.tfrecord.gz"
        packed.write_bytes(gzip.compress(bad))
        for file in (path, packed):
            with pytest.raises(InputError, match="not a complete TFRecord"):
                open_records(file)


def test_record_counts_must_match_the_manifest(folder, edited):
    with edited(folder / "manifest.json") as manifest:
        manifest["splits"]["train"]["files"][1]["records"] += 1
    with pytest.raises(InputError, match=r"00001.*records, but its manifest"):
        open_records(folder)


@pytest.mark.parametrize("position", [0, 100, -1])
def test_tokenizer_must_be_that_of_the_records(folder, position):
    model = bytearray((folder / "spiece.model").read_bytes())
    model[position] ^= 1
    (folder / "spiece.model").write_bytes(model)
    with pytest.raises(InputError):
        _ = open_records(folder).tokenizer


def test_vocabularies_and_their_settings_must_match(
    create, folder, documents, tmp_path, edited
):
    own_tokenizer = open_records(folder).tokenizer
    sentences = [sentence for d in documents for sentence in d][::-2]
    config = VocabularyConfig(vocab_size=200)
    path = train_vocabulary(sentences, tmp_path / "other", config)
    tokenizer = AlbertTokenizer.from_file(path)
    other, _ = create("other", tokenizer=tokenizer)
    with pytest.raises(InputError, match="made with a different vocabulary"):
        open_records([folder, other])
    cased, _ = create(
        "cased", tokenizer=own_tokenizer.with_settings(do_lower_case=False)
    )
    with pytest.raises(InputError, match="made with do_lower_case=False, but"):
        open_records([folder, cased])
    names = ("spiece.model", "tokenizer_config.json")
    own = [(folder / name).read_bytes() for name in names]
    for name in names:
        shutil.copy(other / name, folder)
    with pytest.raises(InputError, match="the tokenizer has fingerprint="):
        _ = open_records(folder).tokenizer
    for name, content in zip(names, own, strict=True):
        (folder / name).write_bytes(content)
    with edited(folder / "tokenizer_config.json") as settings:
        settings["do_lower_case"] = False
    with pytest.raises(InputError, match="tokenizer has do_lower_case=False"):
        _ = open_records(folder).tokenizer


def test_baselines_are_those_of_the_split(folder):
    splits = read_manifest(folder)["splits"]
    records = open_records(folder, heldout=True)
    for split in ("train", "heldout"):
        labels = splits[split]["labels"]
        assert records.baselines(split) == {
            "mlm_unigram_accuracy": splits[split]["constant_guess_accuracy"],
            "sop_chance": max(labels.values()) / sum(labels.values()),
            "sop_rule": splits[split]["shortcuts"]["punctuation_rule"],
            "sop_shallow": splits[split]["shortcuts"]["shallow_classifier"],
        }
    assert records.baselines() == records.baselines("train")


def test_identity_is_that_of_the_content(folder, created):
    identity = open_records(folder).identity
    original, _ = created(heldout_fraction=0.3)
    assert open_records(original).identity == identity
    other, _ = created(heldout_fraction=0.3, seed=7)
    assert open_records(other).identity != identity


def test_files_of_equal_names_have_other_identities(created, tmp_path):
    """Without a manifest, the start of each file tells them apart."""

    def copied(name, seed):
        folder, _ = created(heldout_fraction=0.3, seed=seed)
        (tmp_path / name).mkdir()
        for file in folder.glob("pretraining-*"):
            shutil.copy(file, tmp_path / name)
        return open_records(f"{tmp_path / name}/*").identity

    first = copied("first", 7)
    assert copied("copy", 7) == first != copied("other", 8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 199}, "a vocabulary of 200 pieces, more than"),
        ({"max_position_embeddings": 32}, r"64 tokens per record.*=32"),
        ({"type_vocab_size": 1}, "which need type_vocab_size=2, not 1; use"),
    ],
)
def test_models_that_do_not_fit_are_errors(
    folder, small_model, changes, message
):
    records = open_records(folder)
    with pytest.raises(InputError, match=message) as caught:
        records.check_model(small_model.replace(**changes))
    assert "pretraining-00000-of-00003.tfrecord" in str(caught.value)


def test_ids_are_checked_without_a_manifest(folder, small_model):
    (folder / "manifest.json").unlink()
    records = open_records(f"{folder}/*.tfrecord")
    with pytest.raises(InputError, match="must be below vocab_size=20"):
        records.check_model(small_model.replace(vocab_size=20))


def test_ids_and_sizes_of_later_records_are_checked_too(
    created, tmp_path, small_model, write_records
):
    records = {}
    for length in (32, 64):
        made, _ = created(max_seq_length=length)
        files = read_records(sorted(map(str, made.glob("*.tfrecord")))[0])
        records[length] = [record.numpy() for record in files.take(20)]
    largest = [
        parse_example(record)["input_ids"].max() for record in records[64]
    ]
    by_id = [records[64][i] for i in np.argsort(largest, kind="stable")]
    assert min(largest) < max(largest)
    opened = open_records(write_records(tmp_path / "a.tfrecord", *by_id))
    most = int(max(largest))
    opened.check_model(small_model.replace(vocab_size=most + 1))
    with pytest.raises(InputError, match=f"id {most} must be below"):
        opened.check_model(small_model.replace(vocab_size=most))
    mixed = write_records(tmp_path / "b.tfrecord", *by_id, *records[32])
    with pytest.raises(InputError, match="b.tfrecord: not all have 64 tokens"):
        open_records(mixed)


DYNAMIC = {"masking": "dynamic", "pack": True}


@pytest.mark.parametrize(
    ("settings", "others", "message"),
    [
        ({}, {"max_seq_length": 32}, ": 32 tokens per record, but others"),
        ({}, {"max_predictions_per_seq": 9}, ": 9 predictions per record"),
        ({}, DYNAMIC, ": text to be masked in training, but"),
        ({}, {"sentence_order": "nsp"}, ": made with sentence_order=nsp, but"),
        (DYNAMIC, DYNAMIC | {"ngram": 2}, "made with ngram=2, but"),
        (DYNAMIC, DYNAMIC | {"sentence_order": "nsp"}, "sentence_order=nsp, b"),
        (DYNAMIC, DYNAMIC | {"pack": False}, "made with pack=False, but"),
    ],
)
def test_records_of_different_kinds_are_an_error(
    created, settings, others, message
):
    one, other = created(**settings)[0], created(**others)[0]
    with pytest.raises(InputError, match=f"{other}/.*{message}"):
        open_records([one, other])


@pytest.mark.parametrize(
    ("patterns", "split", "message"),
    [
        ("{}/none-*", "train", "no such file"),
        ("", "train", "has an empty path"),
        ("{}/data", "test", "split='test' must be one of"),
        ("{}/data", "heldout", "no split 'heldout', only train"),
        ("{}", "train", "no manifest.json"),
        ("{}/fifo", "train", "fifo: not a regular file"),
    ],
)
def test_missing_records_are_an_error(
    copy_of_created, tmp_path, patterns, split, message
):
    copy_of_created()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match=message):
        open_records(patterns.format(tmp_path), split)


def test_files_must_match_the_manifest(folder):
    first, second, _ = paths(folder)
    with open(first, "ab") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=r"00000.*: 1000 bytes, but its mani"):
        open_records(folder)
    shutil.copy(second, first)
    with pytest.raises(InputError, match=r"bytes, but its manifest says"):
        open_records(f"{folder}/*.tfrecord")
    pathlib.Path(first).unlink()
    with pytest.raises(InputError, match=r"00000-of-00003.*: missing"):
        open_records(folder)


def test_other_files_are_an_error(tmp_path, write_records):
    text = tmp_path / "text.tfrecord"
    text.write_text("This is not a TFRecord file.\n" * 9, "utf-8")
    packed = tmp_path / "text.tfrecord.gz"
    shutil.copy(text, packed)
    for path in (text, packed):
        with pytest.raises(
            InputError, match="not a complete TFRecord"
        ) as caught:
            open_records(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "{{" not in str(caught.value)
    no_examples = write_records(tmp_path / "a.tfrecord", b"hello")
    with pytest.raises(InputError, match="they lack input_ids, input_mask"):
        open_records(no_examples)
    nothing = write_records(tmp_path / "b.tfrecord")
    with pytest.raises(InputError, match="the files have no records"):
        open_records(nothing)


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "other"}'])
def test_files_that_are_not_manifests(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match="not a manifest of pretraining data"):
        open_records(tmp_path)


def test_invalid_manifests_are_errors(copy_of_created, edited):
    folder = copy_of_created(**DYNAMIC)
    original = (folder / "manifest.json").read_text()
    for section, name, value, message in (
        (None, "version", 99, "version 99 is not supported, only 1"),
        ("settings", "max_seq_length", -1, "must be at least 3"),
        ("settings", "max_seq_length", 0, "must be at least 3"),
        ("settings", "max_sequences_per_row", 0, "must be from 1 to 1024"),
        ("settings", "max_sequences_per_row", -1, "must be from 1 to 1024"),
        ("settings", "max_sequences_per_row", 10**6, "must be from 1 to 1024"),
        ("settings", "pack", False, "absent without"),
        ("tokenizer", "vocab_size", 0, "vocab_size"),
    ):
        with edited(folder / "manifest.json") as manifest:
            (manifest[section] if section else manifest)[name] = value
        with pytest.raises(InputError, match=message):
            open_records(folder).dataset(8)
        (folder / "manifest.json").write_text(original)


def test_shards_may_be_empty(created, corpus):
    folder, manifest = created(
        input=f"{corpus}/c.txt", num_shards=20, compress=True
    )
    files = manifest["splits"]["train"]["files"]
    assert any(file["records"] == 0 for file in files)
    records = open_records(folder)
    assert records.max_seq_length == 64
    counts = manifest["splits"]["train"]["counts"]
    assert records.verify() == counts["instances"]


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_damaged_file_is_named_in_the_error(copy_of_created, harm):
    folder = copy_of_created()
    path = sorted(map(str, folder.glob("*.tfrecord")))[1]
    content = bytearray(pathlib.Path(path).read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "cut":
        del content[-100:]
    pathlib.Path(path).write_bytes(content)
    with pytest.raises(InputError, match="copy it again|copy the file again"):
        open_records(folder).verify()
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="not a complete TFRecord") as caught:
        open_records(f"{folder}/*.tfrecord").verify()
    assert path in str(caught.value)
