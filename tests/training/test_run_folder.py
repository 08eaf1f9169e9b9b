import json

import pytest

from albert_tf.errors import InputError
from albert_tf.training.run_folder import prepare_run_folder, read_settings

SETTINGS = {"learning_rate": 0.1, "layers": (1, 2), "num_train_steps": 10}


def test_new_folder_records_the_run(tmp_path):
    folder = tmp_path / "a" / "run"
    files = {"pretrain.flags": "--seed=ä\n", "spiece.model": b"\xff\n\x00"}
    assert not prepare_run_folder(folder, SETTINGS, files=files)
    assert read_settings(folder) == SETTINGS | {"layers": [1, 2]}
    assert (folder / "pretrain.flags").read_text("utf-8") == "--seed=ä\n"
    assert (folder / "spiece.model").read_bytes() == b"\xff\n\x00"
    record = json.loads((folder / "run.json").read_text())
    assert {"albert_tf", "tensorflow", "keras"} == set(record["versions"])


def test_same_settings_resume(tmp_path):
    prepare_run_folder(tmp_path, SETTINGS)
    (tmp_path / "metrics.jsonl").write_text("")
    assert prepare_run_folder(tmp_path, dict(SETTINGS))


def test_other_settings_are_named(tmp_path):
    prepare_run_folder(tmp_path, SETTINGS)
    for changed in (SETTINGS | {"learning_rate": 0.2}, SETTINGS | {"new": 1}):
        name = "learning_rate" if "new" not in changed else "new"
        with pytest.raises(InputError, match=f"holds a run with {name}="):
            prepare_run_folder(tmp_path, changed)
    assert read_settings(tmp_path)["learning_rate"] == 0.1


def test_settings_that_an_older_run_had_not_are_their_defaults(tmp_path):
    prepare_run_folder(tmp_path, SETTINGS)
    newer = SETTINGS | {"decay": [1.0, 2.0]}
    defaults = {"decay": (1.0, 2.0), "learning_rate": 9.9}
    with pytest.raises(InputError, match=r"decay=\[1.0, 2.0\], not \[3.0\]"):
        prepare_run_folder(
            tmp_path, newer | {"decay": [3.0]}, defaults=defaults
        )
    assert "decay" not in read_settings(tmp_path)
    assert prepare_run_folder(tmp_path, newer, defaults=defaults)
    assert read_settings(tmp_path) == json.loads(json.dumps(newer))


def test_some_settings_may_change(tmp_path):
    prepare_run_folder(tmp_path, SETTINGS)
    longer = SETTINGS | {"num_train_steps": 20}
    with pytest.raises(InputError, match="num_train_steps=10, not 20"):
        prepare_run_folder(tmp_path, longer)
    assert prepare_run_folder(tmp_path, longer, may_change=["num_train_steps"])
    assert read_settings(tmp_path)["num_train_steps"] == 20
    assert "started" in (tmp_path / "run.json").read_text()


def test_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="contains thesis.tex"):
        prepare_run_folder(tmp_path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_start_that_was_killed_is_no_obstacle(tmp_path):
    (tmp_path / "a.flags").write_text("half")
    (tmp_path / "run.json.partial").write_text("{")
    assert not prepare_run_folder(tmp_path, SETTINGS, files={"a.flags": "x"})
    assert (tmp_path / "a.flags").read_text() == "x"
    assert not (tmp_path / "run.json.partial").exists()


def test_file_in_the_way_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        prepare_run_folder(tmp_path / "run", SETTINGS)


def test_damaged_record_is_named(tmp_path):
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match="not the record of a run"):
        prepare_run_folder(tmp_path, SETTINGS)


def test_settings_of_no_run(tmp_path):
    with pytest.raises(InputError, match="not the folder of a run"):
        read_settings(tmp_path)


def test_only_the_chief_writes(tmp_path):
    assert not prepare_run_folder(tmp_path / "run", SETTINGS, writes=False)
    assert not (tmp_path / "run").exists()
