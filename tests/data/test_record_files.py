import shutil

import pytest

from albert_tf.data.record_files import count_records, find_record_files
from albert_tf.errors import InputError


@pytest.fixture
def folder(create):
    return create(heldout_fraction=0.3)[0]


def test_a_folder_means_the_files_of_a_split(folder):
    train = find_record_files(folder)
    assert [file.path for file in train] == [
        f"{folder}/pretraining-0000{shard}-of-00003.tfrecord"
        for shard in range(3)
    ]
    [heldout] = find_record_files(folder, "heldout")
    assert heldout.path == f"{folder}/heldout-00000-of-00001.tfrecord"
    for file in (*train, heldout):
        assert file.num_records == count_records(file.path) > 0
        assert file.manifest["settings"]["max_seq_length"] == 64


def test_patterns_find_the_manifest_beside_the_files(folder, tmp_path):
    by_folder = find_record_files(folder)
    assert find_record_files(f"{folder}/pretraining-*") == by_folder
    assert find_record_files([file.path for file in by_folder]) == by_folder
    both = f"{folder}/pretraining-00001*, {folder}"
    assert {file.path for file in find_record_files(both)} == {
        file.path for file in by_folder
    }
    shutil.copy(by_folder[0].path, tmp_path / "copy[1].tfrecord")
    [copy] = find_record_files(f"{tmp_path}/copy[1].tfrecord")
    assert copy.manifest is None
    assert copy.num_records is None


def test_counting_reads_compressed_files(create):
    folder, manifest = create(compress=True)
    files = find_record_files(folder)
    assert (
        sum(count_records(file.path) for file in files)
        == (manifest["splits"]["train"]["counts"]["instances"])
    )


def test_refusals(create, folder, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        find_record_files(f"{tmp_path}/none-*")
    with pytest.raises(InputError, match="no such file"):
        find_record_files("")
    with pytest.raises(InputError, match="split='test' must be one of"):
        find_record_files(folder, "test")
    without, _ = create("without")
    with pytest.raises(InputError, match="no split 'heldout' but train"):
        find_record_files(without, "heldout")
    with pytest.raises(InputError, match=r"no manifest.json"):
        find_record_files(tmp_path)


def test_files_that_are_not_as_the_manifest_says(folder):
    first, second, _ = (file.path for file in find_record_files(folder))
    with open(first, "ab") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=r"00000.*: 1000 bytes, but its mani"):
        find_record_files(folder)
    shutil.copy(second, first)
    with pytest.raises(InputError, match=r"bytes, but its manifest says"):
        find_record_files(f"{folder}/*.tfrecord")
    (folder / first).unlink()
    with pytest.raises(InputError, match=r"00000-of-00003.*: missing"):
        find_record_files(folder)
