import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.check_records import check_records, verify_records
from albert_tf.data.record_files import open_records
from albert_tf.data.records import parse_example
from albert_tf.errors import InputError


@pytest.fixture
def folder(create):
    return create()[0]


def write_records(path, *records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


def test_fitting_records_give_their_sizes(folder, tokenizer):
    assert check_records(folder) == (64, 10)
    wanted = {
        "vocab_size": 200,
        "max_seq_length": 64,
        "max_predictions_per_seq": 10,
        "tokenizer_fingerprint": tokenizer.fingerprint,
    }
    assert check_records(folder, **wanted) == (64, 10)


def test_googles_records_fit(shared):
    path = shared("golden", "google", "pretraining_data", "sop.tfrecord")
    assert check_records(path, vocab_size=30000) == (128, 20)
    assert verify_records(path) == 1151


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"max_seq_length": 128}, "64 tokens a record, not 128"),
        ({"max_predictions_per_seq": 20}, "10 predictions a record, not 20"),
        ({"vocab_size": 199}, "a vocabulary of 200 pieces, more than"),
        ({"tokenizer_fingerprint": "0" * 64}, "made with another tokenizer"),
    ],
)
def test_what_does_not_fit_is_refused(folder, wanted, message):
    with pytest.raises(InputError, match=message) as caught:
        check_records(folder, **wanted)
    assert "pretraining-00000-of-00003.tfrecord" in str(caught.value)


def test_ids_are_checked_without_a_manifest(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="is not below vocab_size=20"):
        check_records(f"{folder}/*.tfrecord", vocab_size=20)


def test_ids_and_sizes_of_later_records_are_checked_too(create, tmp_path):
    records = {}
    for length in (32, 64):
        made, _ = create(str(length), max_seq_length=length)
        files = open_records(sorted(map(str, made.glob("*.tfrecord")))[0])
        records[length] = [record.numpy() for record in files.take(20)]
    largest = [
        parse_example(record)["input_ids"].max() for record in records[64]
    ]
    by_id = [records[64][i] for i in np.argsort(largest, kind="stable")]
    assert min(largest) < max(largest)
    path = write_records(tmp_path / "a.tfrecord", *by_id)
    check_records(path, vocab_size=max(largest) + 1)
    with pytest.raises(InputError, match=f"id {max(largest)} is not below"):
        check_records(path, vocab_size=max(largest))
    mixed = write_records(tmp_path / "b.tfrecord", *by_id, *records[32])
    with pytest.raises(InputError, match="b.tfrecord: not all have 64 tokens"):
        check_records(mixed)


def test_files_of_different_sizes_do_not_mix(create):
    one, _ = create("one")
    other, _ = create("other", max_seq_length=32)
    with pytest.raises(InputError, match=r"other/.*: 32 tokens a record, not"):
        check_records([one, other])


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.tfrecord"
    text.write_text("This is not a TFRecord file.\n" * 9, "utf-8")
    packed = tmp_path / "text.tfrecord.gz"
    shutil.copy(text, packed)
    for path in (text, packed):
        with pytest.raises(InputError, match="not a whole TFRecord") as caught:
            check_records(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "{{" not in str(caught.value)
    no_examples = write_records(tmp_path / "a.tfrecord", b"hello")
    with pytest.raises(InputError, match="they lack input_ids, input_mask"):
        check_records(no_examples)
    nothing = write_records(tmp_path / "b.tfrecord")
    with pytest.raises(InputError, match="the files hold no record"):
        check_records(nothing)


def test_empty_shards_are_no_harm(create, corpus):
    folder, manifest = create(
        input_patterns=f"{corpus}/c.txt", num_shards=20, compress=True
    )
    files = manifest["splits"]["train"]["files"]
    assert any(file["records"] == 0 for file in files)
    assert check_records(folder) == (64, 10)
    counts = manifest["splits"]["train"]["counts"]
    assert verify_records(folder) == counts["instances"]


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_damage_is_found_and_the_file_named(folder, harm):
    path = sorted(map(str, folder.glob("*.tfrecord")))[1]
    content = bytearray(pathlib.Path(path).read_bytes())
    content[len(content) // 2] ^= 1
    if harm == "cut":
        del content[-100:]
    pathlib.Path(path).write_bytes(content)
    with pytest.raises(InputError, match="copy it again|copy the file again"):
        verify_records(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="not a whole TFRecord") as caught:
        verify_records(f"{folder}/*.tfrecord")
    assert path in str(caught.value)
