import multiprocessing
import pathlib

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.feature_cache import cache_key, cached
from albert_tf.finetuning.features import FeaturesBuilder
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb"


def make(label=1):
    builder = FeaturesBuilder()
    for n in range(300):
        builder.append([2, n, 3], [0, 0, 0])
    return builder.build(labels=[label] * 300), f"of label {label}"


def labels_of(features):
    rows, remarks = features
    found = set(rows.columns["labels"].tolist())
    assert remarks == "of label " + "".join(map(str, found))
    return found


def fail():
    raise AssertionError("made, though it is there")


def test_features_are_made_once(tmp_path, capfd):
    folder = tmp_path / "new" / "cache"
    key = {"task": "x", "lengths": (1, 2)}
    assert labels_of(cached(folder, key, make)) == {1}
    [path] = folder.iterdir()
    assert path.suffix == ".npz"
    again = cached(folder, {"lengths": [1, 2], "task": "x"}, fail)
    assert again[0].ids.tolist() == make()[0].ids.tolist()
    assert labels_of(again) == {1}
    other = cached(folder, {**key, "lengths": (1, 3)}, lambda: make(2))
    assert labels_of(other) == {2}
    assert len(list(folder.iterdir())) == 2
    assert labels_of(cached(folder, key, fail)) == {1}
    assert capfd.readouterr().err == ""


def test_without_a_folder_nothing_is_stored():
    assert labels_of(cached(None, {}, make)) == {1}
    assert labels_of(cached(None, {}, lambda: make(2))) == {2}


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def of_another_key(path):
    cached(path.parent, {"task": "other"}, lambda: make(3))
    [other] = set(path.parent.iterdir()) - {path}
    other.replace(path)


@pytest.mark.parametrize("damage", [cut, flip, empty, of_another_key])
def test_invalid_files_are_replaced(damage, tmp_path, caplog):
    key = {"task": "x"}
    cached(tmp_path, key, make)
    [path] = tmp_path.iterdir()
    damage(path)
    assert labels_of(cached(tmp_path, key, lambda: make(2))) == {2}
    [line] = caplog.messages
    assert str(path) in line
    assert "replaced now" in line
    assert labels_of(cached(tmp_path, key, fail)) == {2}
    assert list(tmp_path.iterdir()) == [path]


def test_failures_leave_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        cached(tmp_path, {}, lambda: 1 / 0)
    assert not list(tmp_path.iterdir())


def test_features_are_returned_even_if_they_cannot_be_stored(tmp_path, caplog):
    folder = tmp_path / "cache"

    def make_and_spoil():
        folder.rmdir()
        folder.touch()
        return make()

    assert labels_of(cached(folder, {}, make_and_spoil)) == {1}
    assert "features are not stored: cannot create a" in caplog.text


def test_invalid_folders_are_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="the folder cannot be made"):
        cached(file, {}, fail)
    with pytest.raises(InputError, match="must be a local folder"):
        cached("gs://bucket/cache", {}, fail)


def _write_many(folder):
    for number in range(20):
        rows = cached(pathlib.Path(folder), {"number": number}, make)
        assert labels_of(rows) == {1}


def test_processes_share_a_folder(tmp_path, capfd):
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=_write_many, args=(str(tmp_path),))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(list(tmp_path.iterdir())) == 20
    assert capfd.readouterr().err == ""
    assert labels_of(cached(tmp_path, {"number": 7}, fail)) == {1}


def test_key_contains_all_that_features_depend_on(tmp_path):
    data = tmp_path / "data.tsv"
    data.write_text("a\tb\n")
    tokenizer = WordPieceTokenizer(VOCABULARY)

    def key(**changes):
        settings = {
            "task": "mrpc",
            "tokenizer": tokenizer,
            "settings": {"max_seq_length": 128},
            "files": [data],
        }
        return cache_key(**settings | changes)

    first = key()
    keys = [
        first,
        key(task="rte"),
        key(tokenizer=WordPieceTokenizer(VOCABULARY + b"\nc")),
        key(tokenizer=WordPieceTokenizer(VOCABULARY, do_lower_case=False)),
        key(settings={"max_seq_length": 64}),
        key(files=[data, data]),
    ]
    moved = data.rename(tmp_path / "other.tsv")
    assert key(files=[moved]) == first
    moved.write_text("a\tc\n")
    keys.append(key(files=[moved]))
    assert all(a != b for n, a in enumerate(keys) for b in keys[:n])
    with pytest.raises(InputError, match="data.tsv: cannot be read"):
        key()
