"""Examples of records as arrays; tests/pretraining/test_pretrain_jax.py has
their batches.
"""

import errno
import json
import os
import shutil

import numpy as np
import pytest

from albert_tf.data.convert_records import _compact, convert_records
from albert_tf.data.example_arrays import ConvertDataConfig
from albert_tf.data.records import open_records
from albert_tf.errors import InputError, StorageError


@pytest.fixture
def folders(created, corpus):
    return [
        created(input=f"{corpus}/{name}", num_shards=2, masking="static")[0]
        for name in ("a.txt", "b.txt.gz")
    ]


def test_all_records_are_written_once_for_each_epoch(folders, tmp_path):
    one, other = folders
    sizes = [
        sum(x.num_records for x in open_records(f).files["train"])
        for f in folders
    ]
    shard = sorted(one.glob("*.tfrecord*"))[0]
    for number, (given, count) in enumerate(
        (
            (f"{one},{other}", sum(sizes)),
            (f"a=3:{one},b=1:{other}", sum(sizes)),
            (
                str(shard),
                open_records(str(shard)).files["train"][0].num_records,
            ),
        )
    ):
        output = tmp_path / str(number)
        manifest = convert_records(
            ConvertDataConfig(input=given, output=output, num_epochs=2)
        )
        assert manifest["splits"]["train"]["examples"] == 2 * count
        assert json.loads((output / "examples.json").read_text()) == manifest
        ids = np.load(output / "train" / "input_word_ids.npy")
        assert len(ids) == 2 * count
        assert ids[:, 0].all()


def test_lengths_and_positions_of_long_records_fit():
    features = {
        "input_mask": np.ones([1, 70_000], np.int32),
        "masked_lm_positions": np.array([[65_535, 69_999]]),
    }
    compact = _compact(features, vocab_size=100)
    assert compact["lengths"] == [70_000]
    assert compact["masked_lm_positions"].tolist() == [[65_535, 69_999]]


def test_a_damaged_record_is_named(folders, tmp_path):
    folder = shutil.copytree(folders[0], tmp_path / "damaged")
    path = sorted(folder.glob("pretraining-*"))[-1]
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path.name}.*corrupted record"):
        convert_records(
            ConvertDataConfig(input=str(folder), output=tmp_path / "new")
        )
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_an_error(folders, tmp_path, monkeypatch):
    """Not a signal that ends the process, as in writing to a mapped file."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="No space left"):
        convert_records(
            ConvertDataConfig(input=str(folders[0]), output=tmp_path / "new")
        )
    assert not (tmp_path / "new").exists()
