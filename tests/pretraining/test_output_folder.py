import json

import pytest

from albert_tf.errors import InputError
from albert_tf.files import temporary_folder
from albert_tf.pretraining.manifest import read_manifest
from albert_tf.pretraining.output_folder import check_output_folder, publish

A, B = (f"pretraining-0000{i}-of-00002.tfrecord" for i in range(2))
TOKENIZER = {"spiece.model", "tokenizer_config.json"}
FORMAT = {"format": "albert_tf pretraining data", "version": 1}


def manifest_of(*names):
    files = [{"name": name} for name in names]
    return FORMAT | {"splits": {"train": {"files": files}}}


def check(folder, overwrite):
    check_output_folder(folder, [A, B, *TOKENIZER], overwrite)


def publish_files(folder, *names, content="new"):
    check(folder, overwrite=True)
    with temporary_folder(folder) as temporary:
        for name in (*names, "spiece.model", "tokenizer_config.json"):
            (temporary / name).write_text(content, "utf-8")
        publish(temporary, folder, manifest_of(*names))


def names_in(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("exists", [True, False])
def test_new_or_empty_folder(tmp_path, exists):
    folder = tmp_path / "deep" / "data"
    if exists:
        folder.mkdir(parents=True)
    publish_files(folder, A, B)
    assert names_in(folder) == {A, B, "manifest.json"} | TOKENIZER
    assert names_in(folder.parent) == {"data"}
    assert read_manifest(folder) == manifest_of(A, B)
    # Others may read it, as any folder.
    assert (
        folder.stat().st_mode & 0o777
        == tmp_path.joinpath("deep").stat().st_mode & 0o777
    )


def test_overwriting_takes_away_only_what_the_manifest_lists(tmp_path):
    folder = tmp_path / "data"
    publish_files(folder, A, B, content="old")
    (folder / "notes.txt").write_text("mine", "utf-8")
    publish_files(folder, A)
    assert names_in(folder) == {A, "manifest.json", "notes.txt"} | TOKENIZER
    assert (folder / A).read_text("utf-8") == "new"
    assert (folder / "notes.txt").read_text("utf-8") == "mine"


@pytest.mark.parametrize("name", [A, "spiece.model"])
def test_files_beside_no_manifest_are_never_written_over(tmp_path, name):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).write_text("mine", "utf-8")
    with pytest.raises(InputError, match="belongs to no finished data set"):
        publish_files(folder, A, B)
    assert names_in(folder) == {name}
    assert (folder / name).read_text("utf-8") == "mine"


def test_a_manifest_cannot_name_other_files(tmp_path):
    folder = tmp_path / "data"
    publish_files(folder, A)
    victim = tmp_path / "victim.txt"
    victim.write_text("mine", "utf-8")
    (folder / "keep.txt").write_text("mine", "utf-8")
    forged = manifest_of("../victim.txt", "keep.txt", A)
    (folder / "manifest.json").write_text(json.dumps(forged), "utf-8")
    publish_files(folder, B)
    assert victim.exists()
    assert names_in(folder) == {B, "manifest.json", "keep.txt"} | TOKENIZER


def test_refusals(tmp_path):
    file = tmp_path / "file"
    file.write_text("text", "utf-8")
    with pytest.raises(InputError, match="is a file"):
        check(file, overwrite=True)
    folder = tmp_path / "data"
    check(folder, overwrite=False)
    publish_files(folder, A)
    with pytest.raises(InputError, match="already holds a finished data set"):
        check(folder, overwrite=False)
    check(folder, overwrite=True)
    (folder / "manifest.json").write_text('{"name": "my app"}', "utf-8")
    with pytest.raises(InputError, match="not a manifest of pretraining data"):
        check(folder, overwrite=True)
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="already holds other files"):
        check(folder, overwrite=False)
    with (
        pytest.raises(InputError, match="folder in .*file: Not a directory"),
        temporary_folder(file / "data"),
    ):
        pass
