"""Creating data that fails or is killed leaves existing data unchanged."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import pytest

from albert_tf import input_files
from albert_tf.data.shards import Limits
from albert_tf.errors import InputError, ReadError
from albert_tf.input_files import open_input
from albert_tf.text.tokenizer_files import tokenizer_files

SMALL_BLOCKS = Limits(min_block_bytes=8000, max_block_bytes=8000)


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_text_late_in_the_input_leaves_nothing(
    create, corpus, tmp_path, workers
):
    bad = tmp_path / "bad.txt"
    bad.write_bytes((corpus / "a.txt").read_bytes() + b"\xff\n")
    lines = bad.read_bytes().count(b"\n")
    with pytest.raises(InputError, match=rf"bad.txt:{lines}: byte 1"):
        create(
            "out/data",
            input=f"{corpus}/a.txt,{bad}",
            num_workers=workers,
            limits=SMALL_BLOCKS,
        )
    assert list((tmp_path / "out").iterdir()) == []


def test_a_read_error_of_the_system_keeps_the_progress(
    create, contents, corpus, tmp_path, monkeypatch, capfd
):
    """The same command may work later, unlike with bad text."""
    for name in ("a.txt", "c.txt"):
        shutil.copy(corpus / name, tmp_path)
    limits = dataclasses.replace(SMALL_BLOCKS, group_bytes=1, save_seconds=0.0)
    settings = {"input": f"{tmp_path}/?.txt", "limits": limits}
    opened, fails_at = [], None

    def failing(path, *args):
        opened.append(os.path.basename(path))
        if len(opened) == fails_at:
            raise ReadError(f"{path}: cannot be read: Stale file handle")
        return open_input(path, *args)

    monkeypatch.setattr(input_files, "open_input", failing)
    whole, _ = create("whole", **settings)
    fails_at = len(opened) - opened[::-1].index("c.txt")
    opened.clear()
    with pytest.raises(InputError, match="Stale file handle"):
        create("out/data", **settings)
    fails_at = None
    folder, _ = create("out/data", **settings)
    assert "out/data: resumes after " in capfd.readouterr().err
    assert contents(folder) == contents(whole)


@pytest.mark.parametrize("workers", [1, 2])
def test_files_without_text_are_skipped(create, corpus, tmp_path, workers):
    for name in ("0", "2", "3"):
        (tmp_path / f"{name}.txt").write_text("\n \n")
    (tmp_path / "1.txt").write_bytes((corpus / "a.txt").read_bytes())
    (tmp_path / "4.txt").write_bytes((corpus / "c.txt").read_bytes())
    (tmp_path / "5.txt").write_text("\n")
    # A group for each file.
    limits = dataclasses.replace(SMALL_BLOCKS, group_bytes=1, save_seconds=0.0)
    settings = {"num_workers": workers, "limits": limits}
    _, manifest = create(input=f"{tmp_path}/*.txt", **settings)
    assert manifest["splits"]["train"]["counts"]["documents"] == 71
    assert manifest["oddities"]["blank_files"] == 4
    with pytest.raises(InputError, match="no sentence has a token; name"):
        create("none", input=f"{tmp_path}/[023].txt", **settings)


def test_a_folder_with_data_is_an_error_unless_overwrite(
    create, contents, edited
):
    folder, _ = create()
    before = contents(folder)
    with pytest.raises(InputError, match="already holds a finished data set"):
        create(seed=2)
    assert contents(folder) == before
    (folder / "notes.txt").write_text("mine")
    create(seed=2, num_shards=2, overwrite=True)
    after = contents(folder)
    assert sum(name.endswith("-of-00002.tfrecord") for name in after) == 2
    assert not any(name.endswith("-of-00003.tfrecord") for name in after)
    assert after["notes.txt"] == b"mine"
    manifest = json.loads(after["manifest.json"])
    assert manifest["settings"]["seed"] == 2

    # A manifest cannot list other files to have them removed.
    def add_to_manifest(name):
        with edited(folder / "manifest.json") as manifest:
            files = manifest["splits"]["train"]["files"]
            files.append(files[0] | {"name": name})

    add_to_manifest("notes.txt")
    create(overwrite=True)
    assert (folder / "notes.txt").exists()
    add_to_manifest("../victim.txt")
    with pytest.raises(InputError, match="must be a name without folders"):
        create(overwrite=True)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["notes.txt"], None),
        (["spiece.model"], "spiece.model exists but is not part of"),
        (["heldout-00000-of-00007.tfrecord"], "exists but is not"),
        (["manifest.json"], "not a manifest of pretraining data"),
    ],
)
def test_files_that_no_manifest_lists_are_never_overwritten(
    create, tmp_path, names, message
):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("mine")
    with pytest.raises(InputError, match="already holds"):
        create()
    if message:
        with pytest.raises(InputError, match=message):
            create(overwrite=True)
        assert {path.name for path in folder.iterdir()} == {*names}
    else:
        create(overwrite=True)
    assert all((folder / name).read_text() == "mine" for name in names)


def test_unusable_outputs(create, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file; name a folder"):
        create("file", overwrite=True)
    # As a volume of a container.
    (tmp_path / "volume").mkdir()
    is_volume = f"{tmp_path}/volume".__eq__
    monkeypatch.setattr(os.path, "ismount", lambda x: is_volume(os.fspath(x)))
    with pytest.raises(InputError, match="is a mount point.*a folder in it"):
        create("volume")
    assert not any((tmp_path / "volume").iterdir())


SINGLE_SENTENCES = "\n\n".join(f"Ba ro ka {i}." for i in range(9))


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (SINGLE_SENTENCES, {}, "single sentences; put one .*=random_next or"),
        (
            SINGLE_SENTENCES,
            {"masking": "dynamic"},
            "split train has no pair of segments.* or sentence_order=none",
        ),
        ("\u0301\n", {}, "no sentence has a token"),
        (
            None,
            {"heldout_fraction": 1e-9},
            "none of 120 documents for the split heldout; put a blank line "
            "between documents",
        ),
        (
            "One.\n\nTwo.\n",
            {"heldout_fraction": 1e-9, "text_format": "prose"},
            "none of 1 document for .*put two blank lines between documents, "
            "use text_format=lines if",
        ),
    ],
)
def test_splits_without_records_or_pairs_are_errors(
    create, tmp_path, text, settings, message
):
    if text:
        settings = settings | {"input": tmp_path / "text.txt"}
        settings["input"].write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        create(**settings)
    assert not (tmp_path / "data").exists()


UNGUARDED = """
import sys
from albert_tf.data.create_data import create_pretraining_data
from albert_tf.data.data_config import PretrainingDataConfig
from albert_tf.text.tokenizer_files import load_tokenizer

tokenizer_folder, text, output = sys.argv[1:]
create_pretraining_data(PretrainingDataConfig(
    input=text, output=output, tokenizer=load_tokenizer(tokenizer_folder),
    num_workers=2,
))
"""


@pytest.mark.long
def test_a_script_without_a_main_guard(google_tokenizer, tmp_path):
    """Its workers run it again and die; the tokenizer is larger than a pipe."""
    (tmp_path / "tokenizer").mkdir()
    for name, content in tokenizer_files(google_tokenizer).items():
        (tmp_path / "tokenizer" / name).write_bytes(content)
    (tmp_path / "text.txt").write_text("A sentence.\nAnother one.\n")
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    result = subprocess.run(
        [
            *(sys.executable, script, tmp_path / "tokenizer"),
            *(tmp_path / "text.txt", tmp_path / "data"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 1
    assert "the script that started it lacks" in result.stderr
