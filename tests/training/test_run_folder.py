import json
import multiprocessing
import os
import pathlib
import signal

import pytest

from albert_tf.errors import InputError
from albert_tf.training.run_folder import (
    lock_output,
    open_run_folder,
    read_settings,
)

SETTINGS = {"learning_rate": 0.1, "layers": (1, 2), "num_train_steps": 10}


def claim(path, settings=SETTINGS, **arguments):
    """Claims the folder of a run; returns whether it resumes one."""
    with open_run_folder(path, settings, **arguments) as folder:
        folder.claim()
        return folder.resumes


@pytest.fixture
def started(tmp_path):
    """The folder of a run that has a checkpoint."""
    claim(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step-00000001.index").touch()
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_new_folder_records_the_run(tmp_path):
    folder = tmp_path / "a" / "run"
    files = {"pretrain.flags": "--seed=ä\n", "spiece.model": b"\xff\n\x00"}
    assert not claim(folder, files=files)
    assert read_settings(folder) == SETTINGS | {"layers": [1, 2]}
    assert (folder / "pretrain.flags").read_text("utf-8") == "--seed=ä\n"
    assert (folder / "spiece.model").read_bytes() == b"\xff\n\x00"
    record = json.loads((folder / "run.json").read_text())
    assert {"albert_tf", "tensorflow", "keras"} == set(record["versions"])
    assert names(folder) == ["pretrain.flags", "run.json", "spiece.model"]


@pytest.mark.parametrize("name", ["lr[1]", "a*", "what?", "back\\\\slash"])
def test_names_that_tensorflow_takes_for_patterns(tmp_path, name):
    with pytest.raises(InputError, match="cannot read checkpoints below"):
        claim(tmp_path / name / "run")
    assert not list(tmp_path.iterdir())


def test_same_settings_resume(started):
    assert claim(started, dict(SETTINGS))


def test_changed_settings_are_named_in_the_error(started):
    for changed in (SETTINGS | {"learning_rate": 0.2}, SETTINGS | {"new": 1}):
        name = "learning_rate" if "new" not in changed else "new"
        with pytest.raises(InputError, match=f"holds a run with {name}="):
            claim(started, changed)
    assert read_settings(started)["learning_rate"] == 0.1


def test_settings_missing_in_an_older_run_have_their_defaults(started):
    newer = SETTINGS | {"decay": [1.0, 2.0]}
    defaults = {"decay": (1.0, 2.0), "learning_rate": 9.9}
    with pytest.raises(InputError, match=r"decay=\[1.0, 2.0\], not \[3.0\]"):
        claim(started, newer | {"decay": [3.0]}, defaults=defaults)
    assert "decay" not in read_settings(started)
    assert claim(started, newer, defaults=defaults)
    assert read_settings(started) == json.loads(json.dumps(newer))


def test_some_settings_may_change(started):
    longer = SETTINGS | {"num_train_steps": 20}
    with pytest.raises(InputError, match="num_train_steps=10, not 20"):
        claim(started, longer)
    with open_run_folder(
        started, longer, may_change=["num_train_steps"]
    ) as run:
        assert run.resumes
        assert read_settings(started)["num_train_steps"] == 10
        run.claim()
    assert read_settings(started)["num_train_steps"] == 20
    assert "started" in (started / "run.json").read_text()


def test_resumed_run_has_the_files_of_the_newest_command(started):
    new = {"files": {"a": "new"}, "command_files": {"flags.txt": "--new"}}
    assert claim(started, **new)
    assert (started / "flags.txt").read_text() == "--new"
    assert not (started / "a").exists()


def test_nothing_is_written_before_the_claim(tmp_path):
    folder = tmp_path / "a" / "run"
    with open_run_folder(folder, SETTINGS):
        assert names(folder) == [".lock"]
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "left", [(), ("metrics.jsonl",), ("checkpoints/unfinished-1.index",)]
)
def test_run_without_results_may_start_again(tmp_path, left):
    claim(tmp_path, files={"init.txt": "old", "spiece.model": "old"})
    for name in left:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    changed = SETTINGS | {"learning_rate": 0.2}
    assert not claim(tmp_path, changed, files={"spiece.model": "new"})
    assert read_settings(tmp_path)["learning_rate"] == 0.2
    assert not (tmp_path / "init.txt").exists()
    assert (tmp_path / "spiece.model").read_text() == "new"


@pytest.mark.parametrize(
    "left", ["metrics.jsonl", "checkpoints/step-00000000.index", "model/x", "x"]
)
def test_run_with_results_may_not_start_again(tmp_path, left):
    claim(tmp_path, files={"init.txt": "old"})
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_text("{}\n")
    with pytest.raises(InputError, match="holds a run with learning_rate"):
        claim(tmp_path, SETTINGS | {"learning_rate": 0.2})
    assert claim(tmp_path)
    assert (tmp_path / "init.txt").exists()


def test_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    before = os.stat(tmp_path).st_mtime_ns
    with pytest.raises(InputError, match="contains thesis.tex"):
        claim(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        claim(tmp_path / "thesis.tex")
    with pytest.raises(InputError, match="not the folder of a run"):
        read_settings(tmp_path)
    assert os.stat(tmp_path).st_mtime_ns == before


def test_files_of_a_killed_start_are_overwritten(tmp_path):
    for name in ("a.flags", ".run.json.partial", ".lock"):
        (tmp_path / name).write_text("{")
    assert not claim(tmp_path, files={"a.flags": "x"})
    assert (tmp_path / "a.flags").read_text() == "x"
    assert names(tmp_path) == ["a.flags", "run.json"]


def test_run_of_the_other_kind_is_named(started):
    with pytest.raises(InputError, match="holds a pretraining run; choose"):
        claim(started, {**SETTINGS, "data": {"task": "text"}})


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"settings": []}',
        '{"settings": {}, "files": 3}',
        '{"settings": {}, "files": [3]}',
        '{"settings": {}, "files": ["../x"]}',
    ],
)
def test_damaged_record_is_named_in_the_error(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match="run.json"):
        claim(tmp_path)


def hold_lock(folder, locked):
    with lock_output(folder, folder / ".lock"):
        locked.set()
        signal.pause()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_lock_is_released_when_its_process_is_killed(tmp_path):
    folder = tmp_path / "run"
    # The child runs no TensorFlow, so it may be forked.
    fork = multiprocessing.get_context("fork")
    locked = fork.Event()
    holder = fork.Process(target=hold_lock, args=(folder, locked), daemon=True)
    holder.start()
    try:
        assert locked.wait(60)
        with pytest.raises(InputError, match=f"by process {holder.pid} on .*;"):
            claim(folder)
    finally:
        holder.kill()
        holder.join()
    assert names(folder) == [".lock"]
    claim(folder)
    assert names(folder) == ["run.json"]


def test_unwritable_lock_is_an_input_error():
    if os.geteuid() == 0:
        path = pathlib.Path("/proc/nothing")
    else:
        path = pathlib.Path("/nothing")
    with pytest.raises(InputError, match="cannot be written"):
        claim(path)


def test_differences_within_settings_are_named(tmp_path):
    path = tmp_path / "run"
    data = {"task": "text", "files": ["a1"], "dev_files": ["b2"], "labels": []}
    model = {"hidden_size": 8}
    settings = SETTINGS | {"data": data, "model": model, "best_metric": "f1"}

    def message(**changed):
        with pytest.raises(InputError) as error:
            claim(path, settings | changed)
        return str(error.value)

    claim(path, settings)
    (path / "metrics.jsonl").write_text("{}\n")
    other_dev = data | {"dev_files": []}
    # Not of the metric, which follows from the data.
    found = message(data=other_dev, best_metric="")
    assert "holds a run on other development files; use the same" in found
    assert "on other training files" in message(data=data | {"files": ["c"]})
    assert 'with data.task="text", not "b"' in message(
        data=data | {"task": "b"}
    )
    assert "with model.hidden_size=8, not 9" in message(
        model={"hidden_size": 9}
    )
    long = data | {"labels": ["a long label"] * 99}
    assert "with another data.labels; use the same" in message(data=long)
