import resource
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training import checkpoints as module
from albert_tf.training.best_checkpoint import Best
from albert_tf.training.checkpoint_files import (
    list_checkpoints,
    read_checkpoint,
)
from albert_tf.training.checkpoints import Checkpoints, load_model_variables


def make(folder, seed=0, keep=5, **values):
    """Variables of the given initial values, and their checkpoints."""
    variables = {
        f"model/layer/{name}": tf.Variable(value)
        for name, value in values.items()
    }
    return variables, Checkpoints(folder, variables, seed=seed, keep=keep)


def save(checkpoints, *steps):
    for step in steps:
        checkpoints.save(step)
    checkpoints.wait()


def read(variables):
    return [v.numpy().tolist() for v in variables.values()]


def test_names_in_the_file_are_the_public_ones(tmp_path, toy):
    model, optimizer, _ = toy.run(
        tf.distribute.get_strategy(), num_train_steps=2, run_dir=tmp_path
    )
    values = read_checkpoint(tmp_path / "checkpoints" / "step-00000002")
    assert set(values) == {"step", "seed"} | {
        name
        for v in model.weights
        for name in (
            f"model/{v.path}",
            f"optimizer/{v.path}/adam_m",
            f"optimizer/{v.path}/adam_v",
        )
    }
    assert values["step"] == 2
    assert values["seed"] == 3
    for v in model.weights:
        np.testing.assert_array_equal(values[f"model/{v.path}"], v)
    listed = dict(
        tf.train.list_variables(str(tmp_path / "checkpoints/step-00000002"))
    )
    assert "model/table/embeddings/.ATTRIBUTES/VARIABLE_VALUE" in listed


def test_keeps_the_newest(tmp_path):
    _, checkpoints = make(tmp_path, keep=2, a=1.0)
    for step in (1, 2, 3, 10):
        save(checkpoints, step)
    assert list(list_checkpoints(tmp_path)) == [3, 10]
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {
        "step-00000003",
        "step-00000010",
    }


def test_values_are_those_of_the_moment(tmp_path, monkeypatch):
    go, write = threading.Event(), module.write_checkpoint

    def slow_write(*arguments):
        assert go.wait(timeout=60)
        write(*arguments)

    monkeypatch.setattr(module, "write_checkpoint", slow_write)
    variables, checkpoints = make(tmp_path, a=[1.0] * 9)
    (variable,) = variables.values()
    with checkpoints:
        checkpoints.save(1)
        variable.assign_add([1.0] * 9)
        assert list_checkpoints(tmp_path) == {}
        go.set()
        checkpoints.save(2)
        variable.assign([9.0] * 9)
    for step in (1, 2):
        values = read_checkpoint(tmp_path / f"step-0000000{step}")
        assert values["model/layer/a"].tolist() == [float(step)] * 9


@pytest.fixture
def full_disk():
    """No file can grow beyond 4 KB, as on a disk without space."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_leaves_earlier_checkpoints(tmp_path, request):
    _, checkpoints = make(tmp_path, a=tf.range(9000.0))
    save(checkpoints, 1)
    request.getfixturevalue("full_disk")
    checkpoints.save(2)
    with pytest.raises(OSError, match="step-00000002 cannot be written") as e:
        checkpoints.wait()
    assert "\n" not in str(e.value)
    assert {path.stem for path in tmp_path.iterdir()} == {"step-00000001"}
    _, checkpoints = make(tmp_path, a=tf.zeros(9000))
    assert checkpoints.restore_latest() == 1


def test_error_of_the_background_is_raised_once_by_the_next_save(tmp_path):
    (tmp_path / "file").write_text("")
    _, checkpoints = make(tmp_path / "file" / "checkpoints", a=1.0)
    checkpoints.save(1)
    with pytest.raises(OSError, match="cannot be written"):
        checkpoints.save(2)
    checkpoints.wait()
    # The last one's, at the end of the block.
    with pytest.raises(OSError, match="cannot be written"), checkpoints:
        checkpoints.save(3)


def test_replicas_restore_a_checkpoint_of_one_device(
    tmp_path, toy, two_replicas
):
    _, checkpoints = make(tmp_path, a=[1.0, 2.0])
    save(checkpoints, 1)
    with two_replicas.scope():
        variables, checkpoints = make(tmp_path, a=[0.0, 0.0])
    checkpoints.restore_latest()
    (variable,) = variables.values()
    for copy in variable.values:
        assert copy.numpy().tolist() == [1.0, 2.0]
    variable.assign([5.0, 6.0])
    save(checkpoints, 2)
    assert read_checkpoint(tmp_path / "step-00000002")[
        "model/layer/a"
    ].tolist() == [5.0, 6.0]


def damage(folder, step, ending, change):
    """Replaces the content of a file of a checkpoint; None removes it."""
    (path,) = folder.glob(f"step-0000000{step}.{ending}*")
    content = change(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)


def empty(content):
    return b""


@pytest.mark.parametrize(
    ("ending", "change"),
    [
        ("data", lambda content: content[:20]),
        ("data", lambda content: bytes([content[0] ^ 1]) + content[1:]),
        ("data", lambda content: None),
        ("index", lambda content: content[:20]),
        ("index", empty),
    ],
)
def test_damaged_newest_checkpoint_is_skipped_with_a_warning(
    tmp_path, ending, change, caplog
):
    variables, checkpoints = make(tmp_path, a=[1.0] * 9)
    save(checkpoints, 1)
    variables["model/layer/a"].assign([2.0] * 9)
    save(checkpoints, 2)
    damage(tmp_path, 2, ending, change)
    variables, checkpoints = make(tmp_path, a=[0.0] * 9)
    with caplog.at_level("WARNING"):
        assert checkpoints.restore_latest() == 1
    assert read(variables) == [[1.0] * 9]
    assert "step-00000002 cannot be read" in caplog.text


def test_checkpoint_after_a_fallback_outlives_the_damaged_one(tmp_path):
    _, checkpoints = make(tmp_path, keep=1, a=1.0)
    save(checkpoints, 5)
    _, checkpoints = make(tmp_path, keep=1, a=1.0)
    save(checkpoints, 3)
    assert list(list_checkpoints(tmp_path)) == [3]


def test_damaged_checkpoints_do_not_count_as_kept(tmp_path):
    _, checkpoints = make(tmp_path, keep=3, a=1.0)
    save(checkpoints, 1, 2, 3, 4)
    for step in (3, 4):
        damage(tmp_path, step, "index", empty)
    _, checkpoints = make(tmp_path, keep=3, a=1.0)
    assert checkpoints.restore_latest() == 2
    checkpoints.keep_best(Best(2, "loss", 0.1))
    save(checkpoints, 3)
    assert list(list_checkpoints(tmp_path)) == [2, 3]
    assert checkpoints.restore_latest() == 3


def test_no_readable_checkpoint_is_an_error(tmp_path):
    _, checkpoints = make(tmp_path, a=1.0)
    save(checkpoints, 1)
    damage(tmp_path, 1, "index", empty)
    with pytest.raises(InputError, match="none of the 1 checkpoints"):
        checkpoints.restore_latest()


def test_files_of_a_killed_save_are_removed(tmp_path):
    _, checkpoints = make(tmp_path, a=1.0)
    save(checkpoints, 1)
    save(checkpoints, 2)
    (tmp_path / "step-00000002.index").unlink()
    (tmp_path / "unfinished-3_temp").mkdir()
    (tmp_path / "unfinished-3_temp" / "part").write_bytes(b"x")
    (tmp_path / "unfinished-3.index").write_bytes(b"")
    assert list(list_checkpoints(tmp_path)) == [1]
    make(tmp_path, a=1.0)
    assert {path.stem for path in tmp_path.iterdir()} == {"step-00000001"}


def test_index_has_its_name_only_when_it_is_complete(tmp_path, monkeypatch):
    _, checkpoints = make(tmp_path, a=1.0)
    save(checkpoints, 1)
    rename, allowed = tf.io.gfile.rename, 0

    def killed(*arguments, **options):
        nonlocal allowed
        if not allowed:
            raise KeyboardInterrupt
        allowed -= 1
        rename(*arguments, **options)

    for renames in range(2):
        allowed = renames
        monkeypatch.setattr(tf.io.gfile, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            save(checkpoints, 2)
        monkeypatch.undo()
        assert list(list_checkpoints(tmp_path)) == [1]
    save(checkpoints, 2)
    assert list(list_checkpoints(tmp_path)) == [1, 2]
    _, checkpoints = make(tmp_path, a=0.0)
    assert checkpoints.restore_latest() == 2


def test_step_that_is_saved_again_is_replaced(tmp_path):
    variables, checkpoints = make(tmp_path, a=1.0)
    save(checkpoints, 1)
    variables["model/layer/a"].assign(2.0)
    save(checkpoints, 1)
    values = read_checkpoint(tmp_path / "step-00000001")
    assert values["model/layer/a"] == 2.0


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": [1.0], "b": 1.0, "c": 1.0}, "has no model/layer/c"),
        ({"a": [1.0]}, "holds model/layer/b, which this run does not have"),
        ({"a": [1.0, 2.0], "b": 1.0}, r"a has shape \[1\], expected \[2\]"),
        ({"a": [1.0], "b": 1.0, "seed": 4}, "seed=0, not 4"),
    ],
)
def test_checkpoint_of_another_run_is_an_error(tmp_path, other, message):
    _, checkpoints = make(tmp_path, a=[9.0], b=9.0)
    save(checkpoints, 1)
    variables, checkpoints = make(tmp_path, **other)
    before = read(variables)
    with pytest.raises(InputError, match=message):
        checkpoints.restore_latest()
    assert read(variables) == before


def test_only_the_writer_writes(tmp_path):
    variables, _ = make(tmp_path, a=1.0)
    save(Checkpoints(tmp_path / "x", variables, is_writer=False), 1)
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def run(toy, tmp_path_factory):
    """Folder and final weights of a run."""
    folder = tmp_path_factory.mktemp("run")
    model, *_ = toy.run(
        tf.distribute.get_strategy(),
        num_train_steps=4,
        save_checkpoints_steps=2,
        run_dir=folder,
    )
    return folder, toy.weights(model)


@pytest.mark.parametrize(
    "part", ["", "checkpoints", "checkpoints/step-00000004"]
)
def test_weights_of_the_newest(toy, run, part):
    folder, weights = run
    model = toy.Toy(seed=9)
    older = folder / "checkpoints" / "step-00000002"
    assert load_model_variables(model, older) == 2
    assert load_model_variables(model, folder / part) == 4
    for name, value in toy.weights(model).items():
        np.testing.assert_array_equal(value, weights[name])
    part_of_it = types.SimpleNamespace(weights=model.weights[:1])
    with pytest.raises(InputError, match="which the model does not have"):
        load_model_variables(part_of_it, folder)
