"""A run of which nothing lies on the local disk, as on Google Cloud Storage.

TensorFlow's in-memory file system stands in for gs://: as there, only what goes
through `tf.io.gfile` finds its files.
"""

import gzip
import hashlib
import json
import os
import struct

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.data_config import ReadingConfig
from albert_tf.data.documents import read_documents
from albert_tf.data.record_files import RecordFile
from albert_tf.data.records import open_records
from albert_tf.data.text_files import find_text_files, size_of
from albert_tf.errors import InputError
from albert_tf.input_files import sha256
from albert_tf.pretraining.evaluate import evaluate_pretraining
from albert_tf.pretraining.train import pretrain
from albert_tf.text.sentencepiece_tokenizer import AlbertTokenizer
from albert_tf.training.checkpoint_files import read_checkpoint
from albert_tf.training.logging import read_metrics

TEXTS = {
    "a.txt": b"One.\nTwo.\n",
    "b.jsonl.gz": gzip.compress(b'{"text": "One. Two."}'),
}


@pytest.fixture
def remote_records(records):
    """The records under ram://, with their tokenizer and manifest."""
    folder = "ram://bucket/records"
    tf.io.gfile.makedirs(folder)
    for name in os.listdir(records):
        tf.io.gfile.copy(
            str(records / name), f"{folder}/{name}", overwrite=True
        )
    yield folder
    tf.io.gfile.rmtree("ram://bucket")


@pytest.mark.parametrize("name", ["a.txt", "b.jsonl.gz"])
def test_remote_text(name, tmp_path):
    folder = "ram://texts/folder"
    tf.io.gfile.makedirs(folder)
    for copy in (f"{folder}/{name}", f"{folder}/other.csv"):
        with tf.io.gfile.GFile(copy, "wb") as file:
            file.write(TEXTS[name])
    try:
        [path] = find_text_files(f"{folder}/{name[:2]}*")
        assert path == f"{folder}/{name}"
        assert size_of(path) == len(TEXTS[name])
        assert sha256(path) == hashlib.sha256(TEXTS[name]).hexdigest()
        text_format = "jsonl" if "jsonl" in name else "lines"
        reading = ReadingConfig(text_format=text_format)
        [document] = read_documents(path, reading)
        assert document == ["One.", "Two."]
        for pattern, message in {
            "ram://texts/*": "only folders match",
            "ram://texts/**": "for local files",
            f"{folder}/none*": "no such file",
            "nowhere://a/b": "nowhere://a/b: cannot be read: .*not implement",
        }.items():
            with pytest.raises(InputError, match=message):
                find_text_files(pattern)
        with pytest.raises(InputError, match=f"{folder}/none: cannot be read"):
            list(read_documents(f"{folder}/none"))
    finally:
        tf.io.gfile.rmtree("ram://texts")


@pytest.mark.long
def test_run_resume_and_evaluation(
    pretrained,
    pretrain_config,
    remote_records,
    tokenizer,
    tmp_path,
    monkeypatch,
):
    # What takes "ram://..." for a local path would leave a folder "ram:" here.
    monkeypatch.chdir(tmp_path)
    output = "ram://bucket/run"
    config = pretrain_config(remote_records, output, eval_steps=8)
    result = pretrain(config)
    assert result.steps == 12
    values, expected = (
        read_checkpoint(f"{run}/checkpoints/step-00000012")
        for run in (output, pretrained)
    )
    np.testing.assert_equal(values, expected)
    assert pretrain(config).steps == 12
    lines = [(x["split"], x["step"]) for x in read_metrics(output)]
    assert lines == [
        *(("train", 4), ("train", 8), ("eval", 8)),
        *(("train", 12), ("eval", 12)),
    ]
    scores = evaluate_pretraining(output, remote_records, max_steps=4)
    assert scores["step"] == 12
    assert scores["loss"] == pytest.approx(result.evaluation["loss"], rel=1e-5)
    # The vocabulary travels with the run.
    opened = AlbertTokenizer.from_file(f"{output}/spiece.model")
    assert opened.fingerprint == tokenizer.fingerprint
    assert os.listdir(tmp_path) == []


def write(path, content):
    tf.io.gfile.remove(path)  # ram:// would append.
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(content)


def claim(path, place):
    """Makes a record of a remote file claim 2^40 bytes."""
    with tf.io.gfile.GFile(path, "rb") as file:
        data = bytearray(file.read())
    data[place : place + 8] = struct.pack("<Q", 2**40)
    write(path, bytes(data))


def test_lengths_that_no_remote_file_has(remote_records):
    """TensorFlow would allocate them, and crash."""
    [path, *_] = sorted(tf.io.gfile.glob(f"{remote_records}/pretraining-*"))
    claim(path, 0)
    message = f"records {path}: .*record 1: it claims {2**40} bytes"
    for patterns in (remote_records, path):
        with pytest.raises(InputError, match=message):
            open_records(patterns)
    # Files that no manifest lists are counted before they are read.
    other = "ram://bucket/a.tfrecord"
    with tf.io.TFRecordWriter(other) as writer:
        for _ in range(2):
            writer.write(b"x" * 100)
    claim(other, 116)
    with pytest.raises(InputError, match=f"{other}: .*record 2: it claims"):
        _ = RecordFile(other).num_records


@pytest.mark.long
def test_a_wrong_number_of_remote_records(
    remote_records, tmp_path, pretrain_config
):
    """It would decide where a resumed run goes on."""
    path = f"{remote_records}/manifest.json"
    with tf.io.gfile.GFile(path, "r") as file:
        manifest = json.load(file)
    entry = manifest["splits"]["train"]["files"][0]
    right = entry["records"]
    message = rf"{entry['name']}: {right} records, but its manifest says"
    for wrong in (right + 1, right - 1):
        entry["records"] = wrong
        write(path, json.dumps(manifest))
        records = open_records(remote_records)
        with (
            pytest.raises(InputError, match=f"{message} {wrong};"),
            records.explained_errors(),
        ):
            list(records.dataset(8).take(1000))
    with pytest.raises(InputError, match=message):
        pretrain(pretrain_config(remote_records, tmp_path / "run"))
